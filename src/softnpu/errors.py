"""How Python code of softnpu reports what the user has to mend: one line, no traceback."""

USAGE = 2  # the command line or a setting is wrong
BROKEN = 1  # the installation or the machine lacks something


class UserError(Exception):
    """A mistake of the user or of the installation.

    The text is one line that says what is wrong and what to do. `exit_code` is what the `softnpu`
    command ends with.
    """

    exit_code = BROKEN

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class SettingError(UserError):
    """A setting has a value that it can't take."""

    exit_code = USAGE

"""What can go wrong, one class per place where the user has to do something else."""


class AclGraphError(RuntimeError):
    """Base of every error that aclgraph raises by itself."""


class ConfigError(AclGraphError, ValueError):
    """Sizes, modes or declarations contradict each other; nothing was captured yet."""


class InputError(AclGraphError, ValueError):
    """A step's inputs do not fit their declaration. Names the input, and the bucket if known."""


class BudgetError(AclGraphError):
    """The device has no streams left for even one graph."""


class CaptureError(AclGraphError):
    """A bucket could not be captured. Names the bucket; the cause is chained."""


class LateCaptureError(CaptureError):
    """A graph was asked for that was not captured at start-up."""


class AddressError(AclGraphError):
    """A tensor that the graphs read or write has moved. Names the tensor."""


class UpdateError(AclGraphError):
    """Per-step host values could not be written into a captured graph."""


class VerifyError(AclGraphError):
    """`verify()` found differences; the message is its report."""

"""softnpu: a software Ascend NPU.

Importing the package loads nothing but this line, so that build steps, the command line and the
interpreter's start-up hook stay quick. In particular it never loads torch.
"""

__version__ = "0.1.0"

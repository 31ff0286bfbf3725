"""fedsdg: secure feature selection and training in vertical federated learning."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("fedsdg")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__"]

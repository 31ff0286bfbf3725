"""Every error that fedsdg raises on purpose, named by its reason.

::

    FedSDGError
    ├── UserError                  what you gave us cannot be used; nothing was started
    │   ├── ConfigError            a setting is wrong, or two settings contradict each other
    │   └── DataError              a table, column or label cannot be used
    ├── StateFileError             a checkpoint or model file cannot be written, read or trusted
    ├── RunStopped                 a run was asked to stop, wrote a checkpoint and did so
    ├── CryptoError                the encrypted arithmetic refused
    │   ├── InvalidPublicKey       a public key that no honest party would send
    │   ├── InvalidCiphertext      bytes or numbers that are no ciphertext under this key
    │   ├── InvalidPoint           a blinded id that no honest party would send
    │   ├── KeyMismatch            two things under different keys were combined
    │   ├── DoesNotFit             values, slots or weights are wider than the plaintext space allows
    │   ├── SlotOverflow           an unpacked slot left its range: the result would be wrong
    │   ├── MalformedMessage       a serialised array whose header, shape or length is wrong
    │   └── BackendUnavailable     the requested arithmetic back end cannot run here
    └── PeerError                  another party sent something the protocol does not allow
        ├── PeerLost               another party has gone: its process, its machine or the network
        └── ProtocolError          a message out of order, of the wrong kind, or answered twice
            └── QueryLimitReached  a row was asked for more often than a party's policy allows

Messages name the reason, the place and what to do. They carry ids, shapes and sizes, never plaintexts, masks, keys or
ciphertexts: an error text may end in a log, or at the other party.
"""

from __future__ import annotations


class FedSDGError(Exception):
    """Base of every error that fedsdg raises on purpose."""


class UserError(FedSDGError):
    """What the user gave us cannot be used; nothing was started."""


class ConfigError(UserError):
    """A setting is wrong, or two settings contradict each other."""


class DataError(UserError):
    """A table, column or label cannot be used."""


class StateFileError(FedSDGError):
    """A checkpoint or model file cannot be written, read or trusted."""


class RunStopped(FedSDGError):
    """A run was asked to stop, and did so after a checkpoint."""


class CryptoError(FedSDGError):
    """The encrypted arithmetic refused."""


class InvalidPublicKey(CryptoError):
    """A public key that no honest party would send."""


class InvalidCiphertext(CryptoError):
    """Bytes or numbers that are no ciphertext under this key."""


class InvalidPoint(CryptoError):
    """A blinded id that no honest party would send."""


class KeyMismatch(CryptoError):
    """Two things under different keys were combined."""


class DoesNotFit(CryptoError):
    """Values, slots or weights are wider than the plaintext space allows."""


class SlotOverflow(CryptoError):
    """An unpacked slot left its range, so the result would be wrong."""


class MalformedMessage(CryptoError):
    """A serialised array whose header, shape or length is wrong."""


class BackendUnavailable(CryptoError):
    """The requested arithmetic back end cannot run here."""


class PeerError(FedSDGError):
    """Another party sent something that the protocol does not allow."""


class PeerLost(PeerError):
    """Another party has gone: its process, its machine or the network. The run can go on when it is back."""


class ProtocolError(PeerError):
    """A message out of order, of the wrong kind, or answered twice."""


class QueryLimitReached(ProtocolError):
    """A row was asked for more often than a party's policy allows."""


def told(error: BaseException) -> str:
    """Return an error's words for a log: ours quote no cell, id or key; what others' quote is not known."""
    return str(error) if isinstance(error, FedSDGError) else type(error).__name__


class WeakKeyWarning(UserWarning):
    """A key too small for anything but tests is in use."""

"""Makes the error messages that an application expects of what Rosemary's kernel refused.

| refusal | error of OpenFlow 1.0 | of 1.2 to 1.5 |
| --- | --- | --- |
| unknown or used buffer | bad request, buffer unknown | the same |
| group or meter of others | - | bad action, bad output group |
| quota of flows | flow-mod failed, all tables full | flow-mod failed, table full |
| kind of message | bad request, bad type | the same |
| shape | bad request, bad length | the same |
| action | bad action, bad type | the same |
| everything else | bad request, permissions error | the same |
"""

from __future__ import annotations

from rosemary_ryu import wire

# Numbers of refusals (`Refusal` in rosemary_app.h).
SHAPE, KIND, ID, BUFFER, ACTION, FLOWS = 3, 4, 10, 11, 12, 15

_BAD_REQUEST, _BAD_ACTION = 1, 2
_ALL_TABLES_FULL_1_0, _TABLE_FULL = (3, 0), (5, 1)
_BAD_TYPE, _EPERM, _BAD_LEN, _BUFFER_UNKNOWN = 1, 5, 6, 8
_BAD_OUT_GROUP = 9


def error_code(version: int, reason: int) -> tuple[int, int]:
    """Returns type and code of the error message for a refusal."""
    if reason == BUFFER:
        return _BAD_REQUEST, _BUFFER_UNKNOWN
    if reason == ID:
        return _BAD_ACTION, _BAD_OUT_GROUP
    if reason == FLOWS:
        return _ALL_TABLES_FULL_1_0 if version == wire.V1_0 else _TABLE_FULL
    if reason == KIND:
        return _BAD_REQUEST, _BAD_TYPE
    if reason == SHAPE:
        return _BAD_REQUEST, _BAD_LEN
    if reason == ACTION:
        return _BAD_ACTION, 0
    return _BAD_REQUEST, _EPERM


def as_error(version: int, xid: int, reason: int, about: bytes) -> bytes:
    """Returns the error message for a refused message, which begins with `about`."""
    kind, code = error_code(version, reason)
    return wire.error(version, xid, kind, code, about)

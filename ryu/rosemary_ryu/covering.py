"""Finds out whether two flow-mods may concern the same flow.

An addition and a strict command name one flow: its table, priority and match. The others concern every flow that their match
covers (OpenFlow 1.3.5, section 6.4). Filters by cookie and output port are left out, so that the answer may be yes too often, but
never no too often.
"""

from __future__ import annotations

from rosemary_ryu import wire

ALL_TABLES = 0xFF

# A match: the value and the mask of each field. A field without an entry matches everything.
Fields = dict[int, tuple[int, int]]

# The class of fields whose value begins with the number of an experimenter.
_EXPERIMENTER = 0xFFFF

# Fields of a match of OpenFlow 1.0: the place in it, the size, and the bit in its wildcards.
_FIELDS_1_0 = (
    (4, 2, 1 << 0),
    (6, 6, 1 << 2),
    (12, 6, 1 << 3),
    (18, 2, 1 << 1),
    (20, 1, 1 << 20),
    (22, 2, 1 << 4),
    (24, 1, 1 << 21),
    (25, 1, 1 << 5),
    (36, 2, 1 << 6),
    (38, 2, 1 << 7),
)

# The IP addresses of such a match: the place, and where the number of wildcarded bits is in the wildcards.
_ADDRESSES_1_0 = ((28, 8), (32, 14))


def may_concern(one: bytes, other: bytes) -> bool:
    """Whether two flow-mods of one version may concern the same flow."""
    is_old = one[0] == wire.V1_0
    table, other_table = _table(one, is_old), _table(other, is_old)
    if table != other_table and ALL_TABLES not in (table, other_table):
        return False
    fields, other_fields = _fields(one, is_old), _fields(other, is_old)
    if fields is None or other_fields is None:
        return True
    is_exact, other_is_exact = names_one_flow(one), names_one_flow(other)
    if is_exact and other_is_exact:
        return fields == other_fields and _priority(one, is_old) == _priority(other, is_old)
    # A strict deletion in all tables is regarded as one that is not strict.
    if other_is_exact:
        return _covers(fields, other_fields)
    if is_exact:
        return _covers(other_fields, fields)
    return not _are_disjoint(fields, other_fields)


def _covers(wide: Fields, narrow: Fields) -> bool:
    """Whether each packet that `narrow` matches is one that `wide` matches."""
    for field, (value, mask) in wide.items():
        own, own_mask = narrow.get(field, (0, 0))
        if mask & ~own_mask or own & mask != value & mask:
            return False
    return True


def _are_disjoint(one: Fields, other: Fields) -> bool:
    """Whether no packet can match both, by a field that both have."""
    for field, (value, mask) in one.items():
        own, own_mask = other.get(field, (0, 0))
        if (value ^ own) & mask & own_mask:
            return True
    return False


def names_one_flow(flow_mod: bytes) -> bool:
    """Whether a flow-mod concerns one flow at most: an addition, or a strict command for one table."""
    is_old = flow_mod[0] == wire.V1_0
    command = wire.u16(flow_mod, wire.FM10_COMMAND) if is_old else flow_mod[wire.FM_COMMAND]
    return command not in (wire.MODIFY, wire.DELETE) and _table(flow_mod, is_old) != ALL_TABLES


def flow_of(flow_mod: bytes) -> tuple[int, int, bytes]:
    """Returns what names the flow of such a flow-mod: table, priority and match."""
    is_old = flow_mod[0] == wire.V1_0
    if is_old:
        match = flow_mod[wire.FM10_MATCH : wire.FM10_COOKIE]
    else:
        match = flow_mod[wire.FM_MATCH : wire.instructions_at(flow_mod)]
    return _table(flow_mod, is_old), _priority(flow_mod, is_old), match


def _table(flow_mod: bytes, is_old: bool) -> int:
    return 0 if is_old else flow_mod[wire.FM_TABLE]


def _priority(flow_mod: bytes, is_old: bool) -> int:
    return wire.u16(flow_mod, wire.FM10_PRIORITY if is_old else wire.FM_PRIORITY)


def _fields(flow_mod: bytes, is_old: bool) -> Fields | None:
    """Reads a match; `None` if it has fields of an experimenter."""
    if is_old:
        return _fields_1_0(flow_mod[wire.FM10_MATCH : wire.FM10_COOKIE])
    fields: Fields = {}
    at, end = wire.FM_MATCH + 4, wire.FM_MATCH + wire.u16(flow_mod, wire.FM_MATCH + 2)
    while at + 4 <= end:
        if wire.u16(flow_mod, at) == _EXPERIMENTER:
            return None
        kind, size = wire.u16(flow_mod, at) << 7 | flow_mod[at + 2] >> 1, flow_mod[at + 3]
        value = flow_mod[at + 4 : at + 4 + size]
        mask = b"\xff" * size
        if flow_mod[at + 2] & 1:
            value, mask = value[: size // 2], value[size // 2 :]
        number, bits = int.from_bytes(value, "big"), int.from_bytes(mask, "big")
        if bits:
            fields[kind] = (number & bits, bits)
        at += 4 + size
    return fields


def _fields_1_0(match: bytes) -> Fields:
    wildcards = wire.u32(match, 0)
    fields: Fields = {}
    for at, size, bit in _FIELDS_1_0:
        if not wildcards & bit:
            fields[at] = (int.from_bytes(match[at : at + size], "big"), (1 << 8 * size) - 1)
    for at, shift in _ADDRESSES_1_0:
        ignored = min(wildcards >> shift & 0x3F, 32)
        mask = 0xFFFF_FFFF >> ignored << ignored
        if mask:
            fields[at] = (wire.u32(match, at) & mask, mask)
    return fields

"""Maps an application's numbers to those on the switch, and back.

An application uses priorities from 0 to 65535, any group and meter numbers and 64-bit cookies. On the switch its
priorities lie in its band, its groups and meters in ranges of its own, and its cookies have 48 bits.

```text
priority   0 ......... 2048 ... 9000 ............. 32768 ............. 65535
           | exact    | . . . | exact | . . . . .  | exact | . . . . .| exact
band       lowest                                                     highest
```

The map of priorities keeps the order and is the same in every life of the application, as flows outlive it. In a band
with fewer numbers, the ranges that applications use most are exact, and adjacent priorities between them share a number.
"""

from __future__ import annotations

import hashlib
import logging

LOG = logging.getLogger("rosemary.ryu")

ALL_PRIORITIES = 1 << 16

# Ranges that stay exact as long as the band has room: small numbers, Faucet's, the default and its neighbours, the top.
_EXACT = ((0, 2048), (8992, 9120), (32704, 32832), (65280, 65536))

OWN_COOKIE_BITS = 48
_MAPPED_COOKIE = 1 << (OWN_COOKIE_BITS - 1)
MOST_MAPPED_COOKIES = 1 << 16

# OpenFlow 1.3.5 §7.2.1, §7.3.4.2, §7.3.4.4: group and meter numbers with a meaning.
GROUP_MAX = 0xFFFF_FF00
METER_MAX = 0xFFFF_0000


def _segments() -> list[tuple[int, int, bool]]:
    """Returns all priorities as ranges, and whether each is exact."""
    found, end = [], 0
    for first, last in _EXACT:
        if end < first:
            found.append((end, first, False))
        found.append((first, last, True))
        end = last
    return found


def _sizes(room: int) -> list[int]:
    """Returns how many numbers of a band with `room` numbers each segment gets."""
    segments = _segments()
    loose = [last - first for first, last, exact in segments if not exact]
    exact = [last - first for first, last, exact in segments if exact]
    for_loose = max(room - sum(exact), min(len(loose), room // 2))
    for_exact = room - for_loose
    loose_sizes, exact_sizes = iter(_shares(for_loose, loose)), iter(_shares(for_exact, exact))
    return [next(exact_sizes if exact else loose_sizes) for _, _, exact in segments]


def _shares(total: int, sizes: list[int]) -> list[int]:
    """Divides a total in the proportion of sizes. No share is larger than its size."""
    shares, left, sizes_left = [], total, sum(sizes)
    for size in sizes:
        share = min(size, left * size // sizes_left)
        shares.append(share)
        left, sizes_left = left - share, sizes_left - size
    return shares


class Priorities:
    """The priorities of one application, in its band."""

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest, self.highest = lowest, highest
        room = highest - lowest + 1
        self._pieces: list[tuple[int, int, int, int]] = []  # first and end, first on the switch and how many there
        at = lowest
        for (first, end, _), size in zip(_segments(), _sizes(room), strict=True):
            self._pieces.append((first, end, min(at, highest), size))
            at += size
        self._used: dict[int, int] = {}  # by the priority on the switch, the application's
        self._warned = False

    @property
    def is_whole(self) -> bool:
        """Whether no other application can write flows."""
        return self.lowest <= 1 and self.highest == ALL_PRIORITIES - 1

    def place(self, priority: int) -> int:
        """Returns the priority on the switch."""
        for first, end, at, size in self._pieces:
            if priority < end:
                return min(at + (priority - first) * size // (end - first), self.highest)
        return self.highest

    def to_switch(self, priority: int) -> int:
        """Returns the priority on the switch of a flow that the application writes, and notes that it is used."""
        placed = self.place(priority)
        known = self._used.setdefault(placed, priority)
        if known != priority:
            if not self._warned:
                self._warned = True
                LOG.warning(
                    "priorities %d and %d are the same in the band %d..%d of this app; a wider band tells them apart",
                    known,
                    priority,
                    self.lowest,
                    self.highest,
                )
            self._used[placed] = priority
        return placed

    def to_app(self, placed: int) -> int:
        """Returns the application's priority of a flow on the switch."""
        used = self._used.get(placed)
        return used if used is not None else self._inverse(placed)

    def _inverse(self, placed: int) -> int:
        """Returns the lowest priority that has this place, for a flow of an earlier life."""
        for first, end, at, size in self._pieces:
            if at <= placed < at + size:
                offset = -((at - placed) * (end - first) // size)  # rounded up
                return min(first + offset, end - 1)
        return 0 if placed <= self.lowest else ALL_PRIORITIES - 1


class Ids:
    """Group or meter numbers. Small ones keep their place; others get one by their value, the same in every life."""

    def __init__(self, first: int, last: int, most: int) -> None:
        self._first, self._last, self._most = first, last, most
        self._direct = (last - first + 1) * 3 // 4
        self._placed: dict[int, int] = {}
        self._known: dict[int, int] = {}

    def to_switch(self, number: int) -> int:
        """Returns the number on the switch. Numbers with a meaning, such as `ANY`, stay as they are.

        Raises `LookupError` if the application uses more large numbers than its range has places.
        """
        if number > self._most:
            return number
        if number < self._direct:
            return self._first + number
        if number not in self._placed:
            self._place(number)
        return self._placed[number]

    def _place(self, number: int) -> None:
        room = self._last - self._first + 1 - self._direct
        home = int.from_bytes(hashlib.blake2b(number.to_bytes(4, "big"), digest_size=4).digest(), "big")
        for step in range(room):
            place = self._first + self._direct + (home + step) % room
            if place not in self._known:
                self._placed[number], self._known[place] = place, number
                return
        raise LookupError(f"number {number}: the app's range of {room} large numbers is used up")

    def to_app(self, number: int) -> int:
        """Returns the application's number of one on the switch; others' stay as they are."""
        if not self._first <= number <= self._last:
            return number
        return self._known.get(number, number - self._first)


class Cookies:
    """Cookies. Those below 2^47 stay as they are; others become a number with bit 47 set, made from their value."""

    def __init__(self) -> None:
        self._large: dict[int, int] = {}

    def to_switch(self, cookie: int) -> int:
        """Returns the cookie on the switch."""
        if cookie < _MAPPED_COOKIE:
            return cookie
        digest = hashlib.blake2b(cookie.to_bytes(8, "big"), digest_size=8).digest()
        placed = int.from_bytes(digest, "big") % _MAPPED_COOKIE | _MAPPED_COOKIE
        if len(self._large) < MOST_MAPPED_COOKIES:
            self._large[placed] = cookie
        return placed

    def filter_to_switch(self, cookie: int, mask: int) -> tuple[int, int] | None:
        """Returns cookie and mask on the switch that select the same flows; `None` if no flow can have the cookie."""
        if mask == 0:
            return 0, 0
        if cookie & mask < _MAPPED_COOKIE:
            # The cookies on the switch have no bits above, so the mask says nothing about them.
            return cookie & (_MAPPED_COOKIE - 1), mask & ((1 << OWN_COOKIE_BITS) - 1)
        if mask == (1 << 64) - 1:
            return self.to_switch(cookie), (1 << OWN_COOKIE_BITS) - 1
        return None

    def to_app(self, cookie: int) -> int:
        """Returns the application's cookie of one on the switch."""
        return self._large.get(cookie, cookie)


class Numbers:
    """All numbers of one application."""

    def __init__(self, band: tuple[int, int], groups: tuple[int, int], meters: tuple[int, int]) -> None:
        self.priorities = Priorities(*band)
        self.groups = Ids(*groups, GROUP_MAX)
        self.meters = Ids(*meters, METER_MAX)
        self.cookies = Cookies()

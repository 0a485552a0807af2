"""The map of priorities, groups, meters and cookies."""

import pytest

from rosemary_ryu.numbers import Cookies, Ids, Priorities

BANDS = [(1, 65535), (1, 32767), (32768, 65535), (45056, 49151), (16384, 16511), (40000, 40063), (7, 7)]


@pytest.mark.parametrize("band", BANDS)
def test_priorities_keep_their_order_in_the_band(band):
    priorities = Priorities(*band)
    placed = [priorities.place(it) for it in range(1 << 16)]
    assert placed == sorted(placed)
    assert band[0] <= placed[0] and placed[-1] <= band[1]
    if band[1] - band[0] > 4000:
        for exact in (range(2048), range(9000, 9100), range(32760, 32780), range(65300, 65536)):
            assert len({placed[it] for it in exact}) == len(exact)


@pytest.mark.parametrize("band", BANDS)
def test_priority_of_earlier_life_is_in_the_right_place(band):
    priorities = Priorities(*band)
    for placed in {priorities.place(it) for it in range(1 << 16)}:
        assert priorities.place(priorities.to_app(placed)) == placed


def test_used_priorities_come_back_as_sent():
    priorities = Priorities(16384, 16511)
    for priority in (0, 1, 100, 32768, 65535):
        assert priorities.to_app(priorities.to_switch(priority)) == priority


def test_equal_priorities_are_reported(caplog):
    priorities = Priorities(40000, 40063)
    priorities.to_switch(20000)
    priorities.to_switch(20001)
    assert "are the same in the band 40000..40063" in caplog.text


def test_group_numbers_come_back_as_sent():
    ids = Ids(0x50000, 0x5FFFF, 0xFFFFFF00)
    for number in (0, 1, 49151, 49152, 0x10000000, 0xFFFFFF00):
        placed = ids.to_switch(number)
        assert 0x50000 <= placed <= 0x5FFFF
        assert ids.to_app(placed) == number
    assert ids.to_switch(0xFFFFFFFC) == 0xFFFFFFFC
    assert ids.to_app(0x61234) == 0x61234
    again = Ids(0x50000, 0x5FFFF, 0xFFFFFF00)
    assert again.to_switch(0x10000000) == ids.to_switch(0x10000000)


def test_too_many_large_numbers_are_an_error():
    ids = Ids(0x500, 0x5FF, 0xFFFF0000)
    for number in range(1000, 1064):
        ids.to_switch(number)
    with pytest.raises(LookupError, match="64 large numbers"):
        ids.to_switch(2000)


def test_cookies_come_back_as_sent():
    cookies = Cookies()
    for cookie in (0, 0x5ADC15C0, 1 << 44, 1 << 47, (1 << 64) - 1):
        placed = cookies.to_switch(cookie)
        assert placed < 1 << 48
        assert cookies.to_app(placed) == cookie


def test_cookie_filters_select_the_same_flows():
    cookies = Cookies()
    everything = (1 << 64) - 1
    assert cookies.filter_to_switch(0, 0) == (0, 0)
    assert cookies.filter_to_switch(7, everything) == (7, (1 << 48) - 1)
    assert cookies.filter_to_switch(1 << 63, everything) == (cookies.to_switch(1 << 63), (1 << 48) - 1)
    assert cookies.filter_to_switch(1 << 63, 1 << 63) is None

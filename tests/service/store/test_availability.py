"""Whether a database server is away: by the newest news, in whatever order they come."""

import time

from gramwatt.service.store.server import Availability


def test_what_was_asked_before_the_server_was_found_again_says_nothing_of_now():
    availability = Availability()
    first = time.monotonic()
    availability.lost("refused", first)
    assert availability.is_away
    availability.found(first - 1)  # asked before it was lost
    assert availability.is_away
    availability.found(time.monotonic())
    availability.lost("timed out", first)  # another caller's, that began when it was away
    assert not availability.is_away
    availability.lost("refused", time.monotonic())
    assert availability.is_away

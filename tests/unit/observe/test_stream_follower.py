"""What a follower of a stream holds in memory."""

import gc
import weakref
from typing import Any, cast

from rta_supervisor.observe.tail import StreamFollower
from rta_wire import keys


def test_a_follower_is_freed_with_its_last_user() -> None:
    """Without the collector of cycles, which comes seldom: a page has megabytes, and readers are made for each page."""
    gc.disable()
    try:
        follower = StreamFollower(cast("Any", None), keys.Keys(), "rig")
        reference = weakref.ref(follower)
        follower.take()
        del follower
        assert reference() is None
    finally:
        gc.enable()

"""Following a stream on a real server, whose counters the reader takes at their word."""

import redis

from rta_wire import entry_ids, keys
from rta_wire.stream import cursor

STREAM = keys.stream("followed")
ASKED = 4


def open_cursor(client: redis.Redis) -> cursor.StreamCursor:
    """A cursor that reads counters and entries from one moment."""

    def read(after: str) -> cursor.StreamPage:
        with client.pipeline(transaction=True) as pipe:
            pipe.xinfo_stream(STREAM)
            pipe.xrange(STREAM, min=f"({after}", count=ASKED)
            info, entries = pipe.execute()
        return cursor.parse_page(info, entries, asked=ASKED)

    return cursor.StreamCursor(read)


def add(client: redis.Redis, numbers: range) -> None:
    """Entries as writers append them."""
    for number in numbers:
        client.xadd(STREAM, {keys.ENTRY_ID: "7", keys.ENTRY_DATA: b"%d" % number}, id=f"{number}-0")


def drain(stream_cursor: cursor.StreamCursor) -> list[object]:
    """Numbers of entries, and gaps as they are."""
    found: list[object] = []
    while step := list(stream_cursor.step()):
        found += [int(one.data) if isinstance(one, cursor.StreamEntry) else one for one in step]
    return found


def test_trimmed_entries_are_counted_by_the_servers_own_counters(client: redis.Redis) -> None:
    """Entries, gaps after XTRIM, an emptied stream and one that was made again, as the server reports them."""
    add(client, range(1, 11))
    client.xtrim(STREAM, maxlen=7, approximate=False)
    stream_cursor = open_cursor(client)
    assert drain(stream_cursor) == [cursor.Gap(entry_ids.MIN, "4-0", 3), *range(4, 11)]
    add(client, range(11, 21))
    client.xtrim(STREAM, maxlen=2, approximate=False)
    assert drain(stream_cursor) == [cursor.Gap("10-0", "19-0", 8), 19, 20]
    add(client, range(21, 23))
    client.xtrim(STREAM, maxlen=0, approximate=False)
    assert drain(stream_cursor) == [cursor.Gap("20-0", None, 2)]
    client.delete(STREAM)
    add(client, range(1, 4))
    assert drain(stream_cursor) == [cursor.Gap("22-0", "1-0", 0, exact=False, restarted=True), 1, 2, 3]

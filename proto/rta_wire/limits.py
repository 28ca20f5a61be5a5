"""Every limit of the wire, and the sizes in which the codec works. What an operator may choose is a setting instead."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

BURST_TARGET_BYTES: Final = 64 * KIB
"""Size of a burst before compression, about: where messages are cut into bursts."""

BURST_MAX_BYTES: Final = 1 * MIB
"""Size of a burst before compression, at most: readers decode into buffers of this size."""

BURST_MAX_MESSAGES: Final = 65_536
"""Messages in one burst, at most: 1 MiB has room for half a million empty ones."""

CONTROL_MAX_BYTES: Final = 256 * KIB
CONTROL_MAX_ENTRIES: Final = 100_000
"""Messages that may wait in a control stream while no supervisor runs."""

PAYLOAD_PIECE_BYTES: Final = 128 * KIB
"""Where a payload that is too large for one control message is cut."""

PAYLOAD_MAX_PIECES: Final = 8
"""Of the payload with the JSON of a session."""

CONFIG_MAX_PIECES: Final = 64
"""Of the payload with a configuration. Each may be as large as a configuration of some 20,000 channels."""

CONFIG_MAX_BYTES: Final = CONFIG_MAX_PIECES * PAYLOAD_PIECE_BYTES
"""Size of a configuration JSON, at most."""

CONFIG_IDENTIFIER_CHARS: Final = 40

SEARCH_TEXT_MAX_CHARS: Final = 1024
SEARCH_MAX_DETAILS: Final = 20
"""Of one search for sessions."""

LIST_MAX_SESSIONS: Final = 1_000_000
"""Sessions that a client may ask for in one call. They come in pages."""

TRIM_KEEP_MAX_ENTRIES: Final = 2**53
"""More than any stream has, and a whole number in Lua."""

SESSION_JSON_MAX_BYTES: Final = 900 * KIB
"""A burst has to have room for it, with what compression adds at worst."""

SESSION_JSON_MAX_DEPTH: Final = 16
SESSION_JSON_MAX_CONTAINERS: Final = 100_000
"""Objects and lists: each takes far more memory and time than the bytes that it is written with."""

SESSION_MAX_CONFIGS: Final = 256
"""Configurations that a client may bind a session to. Each is kept and looked for as long as the session is there."""

IDENTITY_MAX_BYTES: Final = 256
KEY_PREFIX_MAX_CHARS: Final = 128
STREAM_NAME_MAX_CHARS: Final = 128
UNIT_MAX_BYTES: Final = 256
EPOCH_MAX: Final = 2**62
REQUEST_ID_MAX_CHARS: Final = 128

CHANNEL_ID_MAX: Final = 2**32 - 1
TIME_NS_MIN: Final = -(2**63)
TIME_NS_MAX: Final = 2**63 - 1

ENCODE_GROUP_ROWS: Final = 64 * KIB
"""Rows in long form that are sorted and cut into bursts together. Each channel in them costs about a microsecond."""

ENCODE_GROUP_ROWS_MAX: Final = 16 * MIB

ENCODE_RUN_SAMPLES: Final = 2048
"""Samples in one message, at most: few enough that bursts come out near their target size."""

LZ4_LEVEL: Final = 0
LZ4_LEVEL_MIN: Final = -64
LZ4_LEVEL_MAX: Final = 12

ENCODE_GROUP_EVENTS: Final = 4096
"""Events that are cut into bursts together."""

ENCODE_WIDE_ROWS: Final = 8 * ENCODE_RUN_SAMPLES
"""Rows in wide form that are cut into bursts together, at least. Each column in them costs about ten microseconds."""

ENCODE_BLOCK_CELLS: Final = 8192
"""Samples that are made into messages at a time, where a message takes much more memory than its samples."""

COLD_BATCH_MAX_BYTES: Final = 4_000_000
"""Size of the entries of one cold batch before compression, names of fields included."""

COLD_BATCH_LIVE_BYTES: Final = 2_000_000
"""Size of the entries of one cold batch in the live stream, where there are several: Redis stores a batch, which is not
larger than they are, in one call."""

COLD_BATCH_MAX_ENTRIES: Final = 8192
"""Entries of one cold batch: what is removed from the live stream at once, and what a reader holds at once."""

COLD_STORED_MAX_BYTES: Final = 8 * MIB
"""Size of one cold batch as it is stored. Incompressible entries take as much as before, and the table is added."""

QUERY_MAX_CHARS: Final = 64 * KIB
QUERY_MAX_DEPTH: Final = 64
QUERY_MAX_NODES: Final = 2000
"""Of one query for sessions: its text, how deep its criteria nest, and how many parts it has in all."""

QUERY_MAX_PATHS: Final = 64
"""Properties that one query looks at: each is a column of values of all sessions."""

SORT_MAX_KEYS: Final = 16

CHUNK_ITEM_SAMPLES: Final = 128
"""Samples of one item in a chunk."""

CHUNK_SAMPLES: Final = 4096
"""Samples of one chunk, about 64 KiB at most. Samples of one time are not divided, as far as `CHUNK_MAX_SAMPLES` and
`CHUNK_LIST_MAX_BYTES` go."""

CHUNK_MAX_SAMPLES: Final = 131_072
"""Samples of one chunk, at most."""

CHUNK_LIST_BYTES: Final = 48 * KIB
"""Size of the rows or events of one chunk before compression, about."""

CHUNK_LIST_MAX_BYTES: Final = 3 * MIB
"""Size of the list of one chunk before compression, at most, but for one row that is larger: readers take 4 MiB."""

CHUNK_WINDOW_NS: Final = 10 * 10**9
"""Chunks end where a time is a multiple of this: so their bounds depend on the samples alone."""

CHANNEL_EXPRESSION_MAX_CHARS: Final = 32 * KIB
CHANNEL_EXPRESSION_MAX_RANGES: Final = 4096

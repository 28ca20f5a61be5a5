"""Every bound of the wire, in one place. What is a matter of taste is a setting; what is here would break a reader."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

BURST_TARGET_BYTES: Final = 64 * KIB
"""Where a burst is cut, before compression."""

BURST_MAX_BYTES: Final = 1 * MIB
"""Readers decode into buffers of this size: a larger burst is lost on them."""

BURST_MAX_MESSAGES: Final = 65_536
"""Messages that one burst may hold. 1 MiB has room for half a million empty ones."""

CONTROL_MAX_BYTES: Final = 256 * KIB
CONTROL_MAX_ENTRIES: Final = 100_000
"""Messages that may wait in a control stream while no supervisor runs."""

SESSION_JSON_MAX_BYTES: Final = 256 * KIB
SESSION_JSON_MAX_DEPTH: Final = 16

IDENTITY_MAX_BYTES: Final = 256
STREAM_NAME_MAX_CHARS: Final = 128
UNIT_MAX_BYTES: Final = 256
REQUEST_ID_MAX_CHARS: Final = 128

CHANNEL_ID_MAX: Final = 2**32 - 1
TIME_NS_MIN: Final = -(2**63)
TIME_NS_MAX: Final = 2**63 - 1

ENCODE_GROUP_ROWS: Final = 64 * KIB
"""Rows in long form that are sorted and cut together: each channel in them costs about a microsecond."""

ENCODE_GROUP_ROWS_MAX: Final = 16 * MIB

ENCODE_RUN_SAMPLES: Final = 2048
"""Samples of one channel in one message, at most: small enough that bursts come out near their target."""

LZ4_LEVEL: Final = 0
LZ4_LEVEL_MIN: Final = -64
LZ4_LEVEL_MAX: Final = 12

ENCODE_GROUP_EVENTS: Final = 4096
"""Events that are cut together."""

ENCODE_WIDE_ROWS: Final = 8 * ENCODE_RUN_SAMPLES
"""Rows in wide form that are cut together, at least: each column in them costs about ten microseconds."""

ENCODE_BLOCK_CELLS: Final = 8192
"""Samples of which messages are made at a time where a message takes much more memory than its samples."""

COLD_BATCH_MAX_BYTES: Final = 4_000_000
"""Entries of one batch of a cold stream before compression, names of fields included."""

COLD_BATCH_MAX_ENTRIES: Final = 8192
"""Entries of one batch: what is removed from the live stream at once, and what a reader holds at once."""

COLD_STORED_MAX_BYTES: Final = 8 * MIB
"""One batch as it is stored: what can't be compressed is stored as it came, with a table beside it."""

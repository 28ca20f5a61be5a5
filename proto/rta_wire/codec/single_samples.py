"""Encodes one sample of each of some channels, which is what a recorder has at each of its ticks.

Plain Python and a template for each set of channels: numpy takes ten times as long for so few rows. The burst is the
same, byte for byte, as that of `sample_messages`.
"""

import functools
import struct
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rta_wire import limits
from rta_wire.arrays import F64, I64
from rta_wire.codec import burst, sample_messages

Integers = npt.NDArray[np.integer[Any]]

ROWS_MAX: Final = 512
"""Rows of a template: more are encoded faster by numpy."""

_TEMPLATES_MAX: Final = 64
_DELTAS: Final = b"\x00"
_SCALE: Final = 1
_SAMPLE_BYTES: Final = 8
_FIELDS: Final = 4
"""What a message is packed from: the bytes before its time, the time, the bytes before its sample, and the sample."""


class Template(NamedTuple):
    """The messages of some channels, with room for a time and a sample in each."""

    packer: struct.Struct
    fields: list[Any]
    order: tuple[int, ...]
    """The rows by channel; empty where they come so."""

    def encode(self, times_ns: list[int], samples: list[int], options: burst.EncodeOptions) -> burst.Burst | None:
        """The burst of a time and a sample for each channel. Samples are the bits of doubles as integers: one that is
        no number keeps all of them. None where it has to be made in another way: a time is 0, which protobuf leaves
        out, or there is more than a burst takes."""
        if self.packer.size > options.target_bytes or 0 in times_ns:
            return None
        start_ns, end_ns = min(times_ns), max(times_ns)
        if self.order:
            times_ns, samples = [times_ns[row] for row in self.order], [samples[row] for row in self.order]
        fields = self.fields.copy()
        fields[1::_FIELDS] = times_ns
        fields[3::_FIELDS] = samples
        raw = self.packer.pack(*fields)
        data = burst.compress(raw, options.level, options.framing)
        return burst.Burst(data, len(raw), len(times_ns), start_ns, end_ns)


@functools.lru_cache(maxsize=_TEMPLATES_MAX)
def template_for(channel_bytes: bytes, dtype: np.dtype[Any]) -> Template | None:
    """The template of channels, given as the bytes of their ids; None where a channel has more than one row, or is
    none."""
    channels = np.frombuffer(channel_bytes, dtype).tolist()
    if len(set(channels)) < len(channels) or min(channels) < 0 or max(channels) > limits.CHANNEL_ID_MAX:
        return None
    order = sorted(range(len(channels)), key=channels.__getitem__)
    fields: list[Any] = []
    formats = ["<"]
    for row in order:
        frame = sample_messages.timestamped_frame(channels[row], True, _SCALE, len(_DELTAS), _SAMPLE_BYTES)
        before_time = frame.before_start + sample_messages.START_TIME_TAG
        before_sample = frame.before_deltas + _DELTAS + frame.before_buffer
        formats.append(f"{len(before_time)}sq{len(before_sample)}sQ")
        fields += (before_time, 0, before_sample, 0)
    is_ordered = order == list(range(len(channels)))
    return Template(struct.Struct("".join(formats)), fields, () if is_ordered else tuple(order))


def encode(channels: Integers, times_ns: I64, values: F64, options: burst.EncodeOptions) -> burst.Burst | None:
    """The burst of timestamped doubles, or None where it has to be made in another way: a channel has several samples,
    or none that can be written, or the template says so."""
    template = template_for(channels.tobytes(), channels.dtype)
    return None if template is None else template.encode(times_ns.tolist(), values.view(np.uint64).tolist(), options)

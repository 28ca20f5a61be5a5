"""Ids of a configuration, to look whether rows have others."""

import numpy as np

from rta_wire import errors
from rta_wire.arrays import Array
from rta_wire.channels import model


class KnownIds:
    """The ids of a configuration, for a look at those of many rows."""

    def __init__(self, channel_list: model.ChannelList) -> None:
        count = len(channel_list.channels)
        self._config = f"the configuration, which has {count:,} {'channel' if count == 1 else 'channels'}"
        self._ids = np.array(sorted(channel_list.by_id), np.uint64)
        self._is_contiguous = bool(len(self._ids)) and int(self._ids[-1] - self._ids[0]) == len(self._ids) - 1

    def has_all(self, ids: Array) -> bool:
        """Whether all of these ids are known. Where ids have no gaps, that takes no look at each."""
        if not len(ids):
            return True
        if self._is_contiguous:
            return bool(self._ids[0] <= ids.min() and ids.max() <= self._ids[-1])
        return bool(np.isin(ids, self._ids).all())

    def check(self, ids: Array) -> None:
        """Raise `BadSamples` with the row of the first id that is not known."""
        if not self.has_all(ids):
            row = int(np.argmin(np.isin(ids, self._ids)))
            raise errors.BadSamples(reason=f"row {row}: channel {ids[row]} is not in {self._config}", row=row)

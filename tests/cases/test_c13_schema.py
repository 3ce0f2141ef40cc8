"""C13: unknown fields, as far as records alone decide."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood.errors import UnknownFormatError
from tests.support import records
from tests.support.check import check_equal


@pytest.mark.parametrize("kind", records.KINDS)
@pytest.mark.parametrize("part", ["header", "payload"])
@pytest.mark.parametrize("value", [None, 1, "later", {}, []], ids=repr)
def test_c13_02_unknown_field_stops_and_is_never_dropped(kind: str, part: str, value: Any) -> None:
    """C13-02: newer data is not read, so that it cannot be lost with the next save: exit 4.

    Method: one key more at the top of header or payload, validly sealed.
    """
    data = records.draft(kind).edited(f"{part}.x", value).record()
    with pytest.raises(UnknownFormatError) as caught:
        records.read(kind, data)
    check_equal(caught.value.exit_code, 4, "exit code")


def test_c13_02_unknown_key_within_the_state_is_the_callers() -> None:
    """C13-02: the state is data, whatever its keys; all of it comes back."""
    state = {"x": 1, "schemaVersion": 99, "sequence": -1, "log": {}}
    data = records.draft("checkpoint").edited("payload.state", state).record()
    _, body = records.read("checkpoint", data)
    check_equal(body.checkpoint.state, state, "state")

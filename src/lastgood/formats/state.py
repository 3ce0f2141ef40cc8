"""What may be stored as state: plain JSON data, given back equal and of the same types.

A serialiser changes some values silently (NaN and infinities to null, tuples to
lists) and would let subclasses and enums lose their type. So the value is proved
before it is encoded, at C speed: the walk never looks at one value alone, but asks
each chunk of up to 2,048 values for the set of its types. Only when that fails does
a slow walk find the JSON path of the first value that may not be stored.

Depth first over chunks, so that the memory in flight is bounded by chunk × depth,
whatever the shape. The number of values is bounded by the payload's limit, for every
value takes at least one byte: a list that holds itself ends at the depth limit, a
small one that stands for 2^200 values ends at that bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from lastgood.errors import LimitError, StateError, printable
from lastgood.formats import canonical
from lastgood.formats.canonical import JSON
from lastgood.formats.limits import Limits

_CHUNK: Final = 2_048
_LEGAL: Final = frozenset({dict, list, str, int, float, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})
_INT_BOUNDS: Final = (-(2**63), 2**64 - 1)
_MAX_PATH_CHARS: Final = 300


def encode_with_state(payload: dict[str, JSON], *, limits: Limits) -> bytes:
    """Encode ``payload``, whose ``"state"`` was given by the caller, proving its fidelity.

    On return the bytes are a snapshot: what the caller does to the state afterwards does not
    matter. What another thread does to it meanwhile is refused where it can be seen.

    Raises:
        StateError: A value would not come back equal and of the same type; has its JSON path.
        LimitError: Deeper or larger than the limits.
    """
    try:
        legal = _is_faithful(payload["state"], limits=limits)
        data = canonical.encode(payload) if legal else None
    except TypeError as error:
        raise _explain(payload["state"], limits=limits, reason=str(error)) from error
    except RuntimeError as error:
        raise StateError("another thread changed it while it was being saved") from error
    if data is None:
        raise _explain(payload["state"], limits=limits, reason="it is not plain JSON data")
    if len(data) > limits.payload_bytes:
        raise LimitError(
            f"The checkpoint's payload has {len(data)} bytes, more than {limits.payload_bytes}"
        )
    return data


def _is_faithful(state: JSON, *, limits: Limits) -> bool:
    """Whether the serialiser would keep every value: legal types only, and finite floats.

    What the serialiser refuses by itself is not asked here: keys that are not exactly
    ``str``, integers beyond 64 bits, half a surrogate pair.
    """
    pending: list[Iterator[JSON]] = [iter([state])]
    count = 0
    while pending:
        chunk = list(islice(pending[-1], _CHUNK))
        if not chunk:
            pending.pop()
            continue
        count += len(chunk)
        if count > limits.payload_bytes:
            raise LimitError(f"The state holds more than {limits.payload_bytes} values")
        types = set(map(type, chunk))
        if not types <= _LEGAL:
            return False
        if float in types and not all(map(math.isfinite, [x for x in chunk if type(x) is float])):
            return False
        if types & _CONTAINERS:
            if len(pending) > limits.depth:
                raise LimitError(
                    f"The state is nested more than {limits.depth} deep, or holds itself"
                )
            children: list[Iterable[JSON]] = [x.values() for x in chunk if type(x) is dict]
            children += [x for x in chunk if type(x) is list]
            pending.append(chain.from_iterable(children))
    return True


def _explain(state: JSON, *, limits: Limits, reason: str) -> StateError:
    """Find the first value that may not be stored; only called once something is wrong."""
    pending: list[tuple[str, JSON, int]] = [("$", state, 0)]
    while pending:
        path, value, depth = pending.pop()
        problem = _problem(value)
        if problem:
            return StateError(problem, path=path[:_MAX_PATH_CHARS])
        if depth >= limits.depth:
            continue
        if type(value) is dict:
            for key in value:
                if key_problem := _key_problem(key):
                    return StateError(key_problem, path=path[:_MAX_PATH_CHARS])
            children = [
                (f"{path}.{printable(key)}", item, depth + 1) for key, item in value.items()
            ]
            pending += reversed(children)
        elif type(value) is list:
            pending += [
                (f"{path}[{index}]", value[index], depth + 1)
                for index in reversed(range(len(value)))
            ]
    return StateError(printable(reason))


def _problem(value: JSON) -> str:
    kind = type(value)
    if kind not in _LEGAL:
        return f"a {printable(kind.__qualname__)} does not come back as one from JSON"
    if kind is float and not math.isfinite(value):
        return f"JSON has no {value}"
    if kind is int and not _INT_BOUNDS[0] <= value <= _INT_BOUNDS[1]:
        return "an integer beyond 64 bits"
    return _text_problem(value) if kind is str else ""


def _key_problem(key: JSON) -> str:
    if type(key) is not str:
        return f"a key that is a {printable(type(key).__qualname__)}, not a str"
    return _text_problem(key)


def _text_problem(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "text with half of a surrogate pair"
    return ""

"""What may be stored as state: plain JSON data, given back equal and of the same types.

A serialiser changes some values silently (NaN and infinities to null, tuples to
lists) and would let subclasses and enums lose their type. So the value is proved
before it is encoded, at C speed: the walk never looks at one value alone, but asks
each chunk of up to 2,048 values for the set of its types. Only when that fails does
a slow walk find the JSON path of the first value that may not be stored.

Depth first over chunks, so that the memory in flight is bounded by chunk × depth,
whatever the shape. What the state takes as JSON is counted from below (a byte for each
value, each key, each character of a value's text), and the walk ends at the payload's
limit: a list that holds itself ends at the depth limit, a small one that stands for 2^200
values, or for one long text ten thousand times, at that bound, before it is encoded.
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
    data = _encode(payload, payload["state"], "state", limits.payload_bytes, limits.depth)
    if len(data) > limits.payload_bytes:
        raise LimitError(
            f"The checkpoint's payload has {len(data)} bytes, more than {limits.payload_bytes}"
        )
    return data


def encode_with_data(body: dict[str, JSON], *, limits: Limits) -> bytes:
    """Encode an event's ``body``, whose ``"data"`` was given by the caller, in the same way.

    Raises:
        StateError: A value would not come back equal and of the same type; has its JSON path.
        LimitError: Deeper or larger than the limits.
    """
    return _encode(body, body["data"], "event's data", limits.event_bytes, limits.depth)


def prove(value: JSON, *, what: str, limit_bytes: int, depth: int) -> None:
    """Return only if ``value`` is plain JSON data, as a state must be.

    Raises:
        StateError: It would not come back equal and of the same type; has its JSON path.
        LimitError: Deeper or larger than the limits.
    """
    _encode({"value": value}, value, what, limit_bytes, depth)


def _encode(whole: dict[str, JSON], value: JSON, what: str, limit_bytes: int, depth: int) -> bytes:
    try:
        return _encode_proved(whole, value, what, limit_bytes, depth)
    except RuntimeError as error:
        reason = "another thread changed it while it was being saved"
        raise StateError(reason, what=what) from error


def _encode_proved(
    whole: dict[str, JSON], value: JSON, what: str, limit_bytes: int, depth: int
) -> bytes:
    try:
        if _is_faithful(value, what=what, limit_bytes=limit_bytes, depth=depth):
            return canonical.encode(whole)
    except TypeError as error:
        raise _explain(value, what=what, reason=str(error)) from error
    raise _explain(value, what=what, reason="it is not plain JSON data")


def _is_faithful(state: JSON, *, what: str, limit_bytes: int, depth: int) -> bool:
    """Whether the serialiser would keep every value: legal types only, and finite floats.

    What the serialiser refuses by itself is not asked here: keys that are not exactly
    ``str``, integers beyond 64 bits, half a surrogate pair.
    """
    pending: list[Iterator[JSON]] = [iter([state])]
    least_bytes = 0
    while pending:
        chunk = list(islice(pending[-1], _CHUNK))
        if not chunk:
            pending.pop()
            continue
        types = set(map(type, chunk))
        if not types <= _LEGAL:
            return False
        if float in types and not all(map(math.isfinite, [x for x in chunk if type(x) is float])):
            return False
        dicts = [x for x in chunk if type(x) is dict] if dict in types else []
        least_bytes += len(chunk) + sum(map(len, dicts))
        if str in types:
            least_bytes += sum(map(len, [x for x in chunk if type(x) is str]))
        if least_bytes > limit_bytes:
            raise LimitError(f"The {what} has more than {limit_bytes} bytes")
        if types & _CONTAINERS:
            if len(pending) > depth:
                raise LimitError(f"The {what} is nested more than {depth} deep, or holds itself")
            children: list[Iterable[JSON]] = [x.values() for x in dicts]
            children += [x for x in chunk if type(x) is list]
            pending.append(chain.from_iterable(children))
    return True


def _explain(state: JSON, *, what: str, reason: str) -> StateError:
    """Find the first value that may not be stored; only called once something is wrong.

    Each container is entered once, so one that is shared or holds itself costs no more than it
    takes in memory; places are remembered, their text is made for the one that is reported.
    """
    entered: set[int] = set()
    steps: list[str | int] = []
    pending: list[Iterator[tuple[str | int, JSON]]] = [iter([("$", state)])]
    while pending:
        found = next(pending[-1], None)
        if found is None:
            pending.pop()
            del steps[-1:]
            continue
        step, value = found
        if problem := _problem(value):
            return StateError(problem, path=_path([*steps, step]), what=what)
        if type(value) in _CONTAINERS and id(value) not in entered:
            entered.add(id(value))
            steps.append(step)
            pending.append(iter(value.items() if type(value) is dict else enumerate(value)))
    return StateError(printable(reason), what=what)


def _path(steps: list[str | int]) -> str:
    parts = (f"[{step}]" if type(step) is int else f".{printable(step)}" for step in steps[1:])
    return ("$" + "".join(parts))[:_MAX_PATH_CHARS]


def _problem(value: JSON) -> str:
    kind = type(value)
    if kind not in _LEGAL:
        return f"JSON cannot give back a value of type {printable(kind.__qualname__)}"
    if kind is float and not math.isfinite(value):
        return f"JSON has no {value}"
    if kind is int and not _INT_BOUNDS[0] <= value <= _INT_BOUNDS[1]:
        return "an integer beyond 64 bits"
    if kind is dict:
        return next(filter(None, map(_key_problem, value)), "")
    return _text_problem(value) if kind is str else ""


def _key_problem(key: JSON) -> str:
    if type(key) is not str:
        return f"a key of type {printable(type(key).__qualname__)}, not str,"
    return _text_problem(key)


def _text_problem(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "text with half of a surrogate pair"
    return ""

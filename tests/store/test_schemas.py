"""Schemas and validators: what a program may believe, and what it may succeed (C9-08, C13-01)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from lastgood import Checkpoint, CheckpointStore
from lastgood.errors import DomainInvariantError, StateError, UnknownSchemaError, UsageError
from lastgood.storage.memory import MemoryRoot
from tests.store.world import SESSION, World, at
from tests.support.check import check, check_equal
from tests.support.records import keyring
from tests.support.values import same, values


def test_an_older_schema_may_be_succeeded_and_is_not_believed(world: World) -> None:
    """A newer program takes the session over; load demands exactly its schema."""
    world.saved(10, schema_version=1)
    with world.open(schema_version=3) as handle:
        with pytest.raises(UnknownSchemaError) as raised:
            handle.load_latest()
        check_equal(raised.value.exit_code, 4, "the exit code")
        with pytest.raises(UnknownSchemaError):
            handle.load(10)
        handle.save(at(20))
        loaded = handle.load_latest()
        check_equal(loaded and (loaded.sequence, loaded.schema_version), (20, 3), "what is loaded")
        with pytest.raises(UnknownSchemaError):
            handle.load(10)


def test_a_newer_schema_stops_an_older_program(world: World) -> None:
    """C13-01: it may neither load, nor own, nor overwrite; nothing changes."""
    world.saved(10, schema_version=2)
    before = world.files()
    with pytest.raises(UnknownSchemaError) as raised:
        world.open(schema_version=1)
    check_equal(raised.value.exit_code, 4, "the exit code")
    with world.reader(schema_version=1) as reader:
        for load in (reader.load_latest, lambda: reader.load(10)):
            with pytest.raises(UnknownSchemaError):
                load()
        check_equal(reader.check().verdict, "good", "check does not need to know the schema")
    check_equal(world.files(), before, "the directory")


def test_a_generation_of_its_own_schema_can_be_loaded_beside_a_newer_one(world: World) -> None:
    """load(sequence): its own schema counts, not that of the current one."""
    world.saved(10, schema_version=1)
    world.saved(20, schema_version=2)
    with world.reader(schema_version=1) as reader:
        check_equal(reader.load(10).state, {"n": 10}, "the older generation")
        with pytest.raises(UnknownSchemaError):
            reader.load_latest()


@pytest.mark.parametrize("given", [None, 2])
def test_a_checkpoint_may_repeat_the_handle_s_schema(world: World, given: int | None) -> None:
    """A schema version in the checkpoint is optional, and what is stored is the handle's."""
    with world.open(schema_version=2) as handle:
        handle.save(Checkpoint(1, {}, (), given))
        loaded = handle.load_latest()
        check_equal(loaded and loaded.schema_version, 2, "the schema that is stored")
        before = world.files()
        for other in (1, 3):
            with pytest.raises(UsageError):
                handle.save(Checkpoint(2, {}, (), other))
        check_equal(world.files(), before, "the directory")


def positive(state: Any) -> bool:
    return bool(state["n"] > 0)


def strict(state: Any) -> None:
    if state["n"] <= 0:
        raise ValueError("not positive")


@pytest.mark.parametrize("validate", [positive, strict])
@pytest.mark.parametrize("state", [{"n": 0}, {"n": -1}, {"m": 1}, [], None])
def test_a_state_that_the_validator_refuses_is_never_published(
    world: World, validate: Any, state: Any
) -> None:
    """C9-08: refused before anything is written, whatever the validator raises."""
    with world.open(validate=validate) as handle:
        handle.save(at(10))
        before = world.files()
        with pytest.raises(StateError):
            handle.save(Checkpoint(20, state))
        check_equal(world.files(), before, "the directory")
        check_equal(handle.save(at(20)).status, "saved", "the handle goes on")


@pytest.mark.parametrize("validate", [positive, strict])
def test_a_stored_state_that_the_validator_refuses_is_not_believed(
    world: World, validate: Any
) -> None:
    """The same rule after loading: another program saved it; nothing older is taken instead."""
    with world.open() as handle:
        handle.save(at(10))
        handle.save(at(20, state={"n": -1}))
    with world.reader(validate=validate) as reader:
        for load in (reader.load_latest, lambda: reader.load(20)):
            with pytest.raises(DomainInvariantError) as raised:
                load()
            check_equal(raised.value.exit_code, 2, "the exit code")
        check_equal(reader.load(10).state, {"n": 10}, "the one that the validator takes")


def test_a_validator_that_is_interrupted_is_not_taken_for_a_refusal(world: World) -> None:
    """Only errors refuse; an interrupt goes through, and nothing was written."""

    def interrupted(state: Any) -> None:
        raise KeyboardInterrupt

    with world.open(validate=interrupted) as handle:
        before = world.files()
        with pytest.raises(KeyboardInterrupt):
            handle.save(at(10))
        check_equal(world.files(), before, "the directory")


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(state=values())
def test_everything_that_save_acknowledges_loads(state: Any) -> None:
    """C9-08: any JSON value, with a validator that takes some: what was saved comes back."""

    def some(value: Any) -> bool:
        return not isinstance(value, str)

    with CheckpointStore(MemoryRoot(), SESSION, keys=keyring(), validate=some) as handle:
        handle.save(Checkpoint(1, {"old": 1}))
        try:
            handle.save(Checkpoint(2, state))
            expected = state
        except StateError:
            expected = {"old": 1}
        loaded = handle.load_latest()
        check(loaded is not None and same(loaded.state, expected), f"loaded {loaded}")

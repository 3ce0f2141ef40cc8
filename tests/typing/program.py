"""A program as a user writes it: it must type-check strictly, wrong uses must not.

Each ``type: ignore`` marks a wrong use; were it not an error, the unused comment would be one.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import lastgood
from lastgood import (
    Checkpoint,
    CheckpointStore,
    Keyring,
    Limits,
    Program,
    Report,
    Retention,
    SaveReceipt,
    Store,
    open_store,
    should_replay,
)


def positive(state: object) -> bool:
    """A validator may return a bool …"""
    return isinstance(state, dict) and state.get("n", 0) > 0


def strict(state: object) -> None:
    """… or raise."""
    if not positive(state):
        raise ValueError("not positive")


def save(root: Path, keys: Keyring) -> SaveReceipt:
    """Right uses."""
    with CheckpointStore(
        root,
        "nightly",
        keys=keys,
        schema_version=2,
        validate=positive,
        retention=Retention(archive="all"),
        limits=Limits(payload_bytes=1 << 20),
        program=Program("invoices", "3"),
    ) as store:
        assert_type(store, CheckpointStore)
        assert_type(store.fencing_token, int)
        assert_type(store.load(1), Checkpoint)
        latest = store.load_latest()
        assert_type(latest, Checkpoint | None)
        fingerprint = "fx:v1:" + "0" * 64
        known = list(latest.fingerprints) if latest is not None else []
        if should_replay(latest, fingerprint):
            known.append(fingerprint)
        receipt = store.save(Checkpoint(2, {"n": [1, None, 2.5]}, known), milestone="first")
        assert_type(receipt.status == "saved", bool)
        assert_type(store.check(), Report)
        return receipt


def look(where: str, keys: Keyring) -> list[str]:
    """A store, its sessions and its errors."""
    store = open_store(where, keys=keys)
    assert_type(store, Store)
    found = []
    try:
        for entry in store.sessions():
            found.append(entry.record.session if entry.record else entry.directory)
        store.checkpoints("nightly", mode="read", validate=strict).verify()
    except lastgood.errors.DamagedError as error:
        assert_type(error.name, str)
        assert_type(error.exit_code, int)
    except lastgood.LastgoodError as error:
        found.append(error.do)
    return found


def wrong(root: Path, keys: Keyring, store: CheckpointStore) -> None:
    """Wrong uses, each of which a type checker finds."""
    CheckpointStore(root, "nightly")  # type: ignore[call-arg]
    CheckpointStore(root, "nightly", keys)  # type: ignore[call-arg]
    CheckpointStore(root, "nightly", keys="secret")  # type: ignore[arg-type]
    CheckpointStore(root, "nightly", keys=keys, mode="append")  # type: ignore[arg-type]
    CheckpointStore(root, b"nightly", keys=keys)  # type: ignore[arg-type]
    CheckpointStore(root, "nightly", keys=keys, retention="all")  # type: ignore[arg-type]
    Retention(archive="some")  # type: ignore[arg-type]
    Checkpoint("10", {})  # type: ignore[arg-type]
    Checkpoint(10, {}, [1, 2])  # type: ignore[list-item]
    Limits(1)  # type: ignore[call-arg]
    store.save({"n": 1})  # type: ignore[arg-type]
    store.load("latest")  # type: ignore[arg-type]
    print(store.load_latest().state)  # type: ignore[union-attr]
    store.prune([1])  # type: ignore[call-arg]
    should_replay(None, 7)  # type: ignore[arg-type]
    print(lastgood.nothing)  # type: ignore[attr-defined]

from __future__ import annotations

import copy
import json
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.analyst.sketching.sketch_file import encode_sketch_file
from sfumato.learning.estimate.limbs import join_limbs
from sfumato.learning.estimate.totals import Totals
from sfumato.shared import command
from sfumato.shared.errors import (
    ConfigError,
    PlanMismatchError,
    PrivacyError,
    RecordError,
)
from sfumato.shared.plan import make_statement, plan_to_json
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.results import SnapshotSumsBody
from tests.analyst.estimators.records import (
    ROOT,
    D,
    K,
    compare,
    make_exact,
    make_private,
    make_records,
)
from tests.forking import run_forked


def test_a_sum_of_parts_is_the_sum_of_all_and_is_decoded_at_the_first_look() -> None:
    records = make_records()
    public: dict[str, Any] = {"bounds": (-12, 12), "scale": 1.0}
    whole = make_exact(**public, compute_labels=False).fit(records)
    parts = make_exact(**public)
    for part in np.array_split(records, 7):
        parts.partial_fit(part)
        assert "cluster_centers_" not in vars(parts)
    merged = make_exact(**public).partial_fit(records[:1000])
    merged.merge(make_exact(**public).partial_fit(records[1000:]))
    for found in (parts, merged):
        assert found.release().payload == whole.release().payload
        assert np.array_equal(found.cluster_centers_, whole.cluster_centers_)
    with pytest.raises(AttributeError, match="none after partial_fit"):
        parts.labels_  # noqa: B018 - asking is the test


def test_bounds_of_the_first_batch_have_room_and_clipping_is_told() -> None:
    records = make_records()
    found = make_exact().partial_fit(records[:3000]).partial_fit(records[3000:])
    assert compare(records, found.cluster_centers_) < 1.01
    with pytest.warns(RuntimeWarning, match="2 values lie beyond the bounds"):
        found.partial_fit([[100.0, -100.0]])


def test_the_first_look_releases_once_and_later_records_form_the_next_release() -> None:
    records = make_records(9000)
    found = make_private(max_records=9000).partial_fit(records[:3000])
    assert not vars(found)["events_"]
    found.partial_fit(records[3000:6000])
    assert found.cluster_centers_.shape == (K, D)
    assert len(found.events_) == 1
    assert vars(found._held)["unreleased"] is None
    found.partial_fit(records[6000:])
    assert len(found.events_) == 1
    assert compare(records, found.cluster_centers_) < 1.1
    assert [event.sequence for event in found.events_] == [0, 1]
    assert {event.stream for event in found.events_} == {"main"}
    assert [release.n_records for release in found.releases_] == [6000, 3000]
    assert found.n_records_seen_ == 9000
    assert "2 releases. If they are of different records" in found.describe()
    with pytest.raises(ConfigError, match="a sketch file has one"):
        found.release()


def test_releases_merge_with_their_noise() -> None:
    records = make_records()
    public: dict[str, Any] = {"public_seed": "shared", "max_records": 4000}
    left = make_private(**public).partial_fit(records[:3000])
    right = make_private(**public).partial_fit(records[3000:])
    assert left.release().payload != right.release().payload
    left.merge(right)
    assert compare(records, left.cluster_centers_) < 1.1
    assert left.n_records_seen_ == 6000
    assert len(left.events_) == 2
    with pytest.raises(ConfigError, match="it would count twice"):
        left.merge(right)
    with pytest.raises(ConfigError, match="is this one itself"):
        left.merge(left)


def test_what_the_pilot_of_a_merged_release_took_still_counts() -> None:
    records = make_records()
    public: dict[str, Any] = {"public_seed": "shared", "max_records": 3000}
    piloted = make_private(**public | {"scale": "pilot"}).fit(records[:3000])
    plan = piloted.plan_
    stated = {"epsilon": plan.release.epsilon, "scale": [each.scale for each in plan.dimensions]}
    plain = make_private(**public | stated).partial_fit(records[3000:])
    assert plain.guarantee_.epsilon < piloted.guarantee_.epsilon
    found = make_private().fit_sketch(plain.release_)
    found.merge(make_private().fit_sketch(piloted.release_))
    assert found.guarantee_.epsilon == piloted.guarantee_.epsilon
    assert Fraction(found.result_.body.privacy.epsilon) == piloted.guarantee_.epsilon


def test_sums_that_do_not_belong_together_are_not_merged() -> None:
    records = make_records(600)
    public: dict[str, Any] = {"public_seed": 1, "max_records": 600}
    released = make_private(**public).partial_fit(records)
    released.release()
    with pytest.raises(PlanMismatchError, match="same public_seed, bounds, scale and max_records"):
        released.merge(make_private(max_records=600).partial_fit(records))
    with pytest.raises(ConfigError, match="has not released its sum"):
        released.merge(make_private(**public).partial_fit(records))
    with pytest.raises(ConfigError, match="has no sum yet"):
        released.merge(make_private(**public))


def test_a_private_sum_that_was_not_released_moves_when_it_is_merged(tmp_path: Path) -> None:
    records = make_records(600)
    public: dict[str, Any] = {"public_seed": 1, "max_records": 600}
    left = make_private(**public).partial_fit(records[:300])
    right = make_private(**public).partial_fit(records[300:])
    left.merge(right)
    assert left.n_records_seen_ == 600
    assert len(left.events_) == 1
    # Released here too, each of its records would be in two releases.
    with pytest.raises(ConfigError, match="has no sum yet"):
        right.release()
    for name in ("one", "other"):
        (tmp_path / name).write_text("")
    counted = [
        make_private(ledger=tmp_path / "ledger", source=tmp_path / name, **public)
        for name in ("one", "other")
    ]
    one, other = (found.partial_fit(records[:300]) for found in counted)
    with pytest.raises(ConfigError, match="has another ledger or source"):
        one.merge(other)
    full = [make_private(**public).partial_fit(records[:400]) for _ in range(2)]
    with pytest.raises(RecordError, match="800 records, more than max_records = 600"):
        full[0].merge(full[1])


def test_threads_that_look_at_once_release_once() -> None:
    records = make_records(600)
    for _ in range(5):
        found = make_private(max_records=600).partial_fit(records)
        barrier = threading.Barrier(4)

        def look(found: CompressiveKMeans = found, barrier: Any = barrier) -> int:
            barrier.wait()
            return found.n_records_seen_

        with ThreadPoolExecutor(4) as pool:
            looks = [pool.submit(look) for _ in range(4)]
        assert [each.result() for each in looks] == [600] * 4
        assert len(found.releases_) == len(found.events_) == 1


def test_a_child_process_does_not_release_what_its_parent_can() -> None:
    script = """
import os, numpy as np
from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.shared.errors import PrivacyError
def make():
    return CompressiveKMeans(
        1, epsilon=1, bounds=(-1, 1), scale=1, max_records=18, public_seed=1
    )
zeros = np.zeros((9, 2))
found = make().partial_fit(zeros)
for way in (found.release, lambda: make().partial_fit(zeros).merge(found)):
    child = os.fork()
    if not child:
        try:
            way()
        except PrivacyError as error:
            os._exit("another process" in str(error))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 1 << 8
found.release()
"""
    # Forked children must have no threads of a numerical library: these have none.
    done = run_forked([sys.executable, "-c", script], folder=ROOT)
    assert done.returncode == 0, done.stderr


def test_what_was_spent_outlives_an_exact_fit_and_a_sketch_of_others() -> None:
    records = make_records(600)
    found = make_private().fit(records)
    found.set_params(epsilon=None).fit(records)
    assert len(found.events_) == 1
    found.set_params(epsilon="5")
    with pytest.raises(PrivacyError, match="was fitted already and has spent epsilon = 5"):
        found.fit(records)
    found.set_params(refit=True).fit(records)
    assert [event.stream for event in found.events_] == ["main", "main.2"]
    theirs = make_private(max_records=600).partial_fit(records)
    found.fit_sketch(theirs.release(), plan=theirs.plan_)
    assert [event.stream for event in found.events_] == ["main", "main.2"]
    assert found.set_params(max_records=600).partial_fit(records).n_records_seen_ == 1200
    assert [event.stream for event in found.events_] == ["main", "main.2", "main.3"]


def test_an_exact_sum_that_is_to_be_private_is_not_stored_or_copied() -> None:
    found = make_private(max_records=600).partial_fit(make_records(600))
    for store in (pickle.dumps, copy.deepcopy):
        with pytest.raises(PrivacyError, match="was not released"):
            store(found)
    found.release()
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.cluster_centers_, found.cluster_centers_)
    with pytest.raises(ConfigError, match="max_records"):
        make_private().partial_fit(make_records(600))
    with pytest.raises(PrivacyError, match="set or removed after"):
        found.set_params(epsilon=None).partial_fit(make_records(10))


def test_sketch_files_are_decoded_together_and_foreign_ones_refused(tmp_path: Path) -> None:
    records = make_records()
    public: dict[str, Any] = {"public_seed": "shared", "max_records": 4000}
    made = [make_private(**public).partial_fit(part) for part in (records[:3000], records[3000:])]
    sketches = [found.release() for found in made]
    both = make_exact().fit_sketch(sketches, plan=made[0].plan_)
    assert compare(records, both.cluster_centers_) < 1.1
    assert both.n_records_seen_ == 6000
    assert both.guarantee_ == made[0].guarantee_
    with pytest.raises(ConfigError, match="a sketch twice"):
        make_exact().fit_sketch([sketches[0], sketches[0]], plan=made[0].plan_)
    other = make_private(max_records=1000).partial_fit(records[:1000])
    with pytest.raises(PlanMismatchError, match="plan_digest"):
        make_exact().fit_sketch(other.release(), plan=made[0].plan_)
    one_pass: dict[str, Any] = {"bounds": (-12, 12), "scale": 1.0, "compute_labels": False}
    exact = make_exact(**one_pass, max_records=4000).fit(records[:3000])
    again = make_exact().fit_sketch(exact.release(), plan=exact.plan_)
    assert np.array_equal(again.cluster_centers_, exact.cluster_centers_)
    with pytest.raises(ConfigError, match="cannot be read"):
        make_exact().fit_sketch(tmp_path / "none.sketch", plan=exact.plan_)
    secret = make_private(relation="add-remove-one", max_records=6000).partial_fit(records)
    with pytest.raises(ConfigError, match="relation"):
        secret.release()


def test_bare_sums_are_decoded_as_a_sketch_file_is() -> None:
    found = make_private(public_seed=1).fit(make_records())
    sketch = found.release()
    again = make_private().fit_sketch((sketch.sums, sketch.n_records), plan=found.plan_)
    assert np.array_equal(again.cluster_centers_, found.cluster_centers_)
    assert not again.events_
    exact = make_exact(compute_labels=False).fit(make_records())
    sums = exact.release().sums
    again = make_exact().fit_sketch((sums, 6000), plan=exact.plan_, exact=True)
    assert np.array_equal(again.cluster_centers_, exact.cluster_centers_)
    for wrong in ((sums[:-1], 6000), (sums.astype(float), 6000), (sums, 0)):
        with pytest.raises(ConfigError, match="whole numbers with a number of records"):
            make_exact().fit_sketch(wrong, plan=exact.plan_)
    with pytest.raises(ConfigError, match="plan: is missing"):
        make_exact().fit_sketch((sums, 6000))


def test_a_snapshot_of_a_server_is_decoded_as_its_sketches_are() -> None:
    public: dict[str, Any] = {"public_seed": "shared", "max_records": 4000}
    parts = [make_private(**public).partial_fit(each) for each in np.array_split(make_records(), 2)]
    whole = make_private(**public).fit_sketch(
        [part.release() for part in parts], plan=parts[0].plan_
    )
    totals = whole._held.totals
    body = make_snapshot_body(totals)
    found = make_private(**public).fit_sketch(body, plan=parts[0].plan_)
    assert np.array_equal(found.cluster_centers_, whole.cluster_centers_)
    assert found.n_records_seen_ == 6000
    assert not found.events_
    # It is the plan that says what sketches of others protect.
    assert found.describe() == make_statement(found.plan_).describe() == found.result_.privacy
    for refused in (found.release, lambda: found.merge(whole), lambda: found.partial_fit([[0, 0]])):
        with pytest.raises(ConfigError, match="holds a snapshot"):
            refused()


def make_snapshot_body(totals: Totals) -> SnapshotSumsBody:
    names = ("n_sketches", "first", "second", "third", "energy")
    members = (make_sample(SnapshotSumsBody) or {}) | {
        "sums": totals.sums.tolist(),
        "size_sums": join_limbs(totals.size_sums),
        "moments": dict(zip(names, totals.moments.rows, strict=True)),
    }
    return structure(SnapshotSumsBody, members, "snapshot")


def test_the_command_decodes_several_files_as_the_estimator_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = make_records()
    public: dict[str, Any] = {"public_seed": "shared", "max_records": 4000}
    made = [make_private(**public).partial_fit(part) for part in (records[:3000], records[3000:])]
    paths = [tmp_path / "north.sketch", tmp_path / "south.sketch"]
    for path, found in zip(paths, made, strict=True):
        path.write_bytes(encode_sketch_file(found.release()))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_to_json(made[0].plan_)))
    files = [str(path) for path in paths]
    decode = ["decode", "file", *files, "--plan", str(plan), "-k", str(K), "--json"]
    assert command.main(decode) == 0
    both = make_exact().fit_sketch(paths, plan=plan)
    found_there = np.array(json.loads(capsys.readouterr().out)["centroids"])
    assert np.array_equal(found_there, both.cluster_centers_)
    assert command.main([*decode, files[0]]) == 2
    assert "has a sketch twice" in " ".join(capsys.readouterr().err.split())

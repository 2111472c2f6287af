"""Reports: one file, the verdict first, names of others as text, and all that a check needs."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from sfumato.analyst import DecodeResult
from sfumato.analyst.report import render_report
from sfumato.shared import command
from sfumato.shared.plan import compute_plan_digest, make_statement, plan_to_json
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.results import EvidenceBody, SnapshotBody
from tests.aggregator.fleet import draw_records, make_plan
from tests.analyst.results.made import make_result

HOSTILE = '</style><script>alert("x")</script>'
RTL = "درجة الحرارة في غرفة المحركات"
LONG = "a name that is long " * 9


def make(k: int, d: int, names: list[str] | None = None, **changes: Any) -> DecodeResult:
    """Return a result of k clusters on d axes with all that a decoder may tell."""
    rng = np.random.default_rng(k * d)
    weights = np.sort(rng.dirichlet(np.ones(k)))[::-1]
    centroids = 100.0 * rng.normal(size=(k, d))
    spreads = np.abs(centroids) / 10.0
    members: dict[str, Any] = {
        "centroids": centroids.tolist(),
        "weights": weights.tolist(),
        "spreads": spreads.tolist(),
        "centroid_errors": (spreads / 3.0).tolist(),
        "weight_errors": (weights / 10.0).tolist(),
        "bars": {"word": "stated", "sentence": "nine in ten bars hold the truth"},
        "resolved": [i > 0 for i in range(k)],
        "mixture": {
            "weights": weights.tolist(),
            "means": centroids.tolist(),
            "variances": (spreads**2).tolist(),
        },
        "evidence": (make_sample(EvidenceBody) or {})
        | {"stabilities": [1.0] * k, "resolutions": [0.02] * k},
        "choice": {
            "residuals": (1.0 / np.arange(1, k + 1)).tolist(),
            "noise_floors": [0.1] * k,
            "recommended": k,
            "least": 1,
            "most": k,
            "reaches_floor": True,
            "statement": f"{k} clusters explain the sketch",
        },
    }
    made = make_result(names or [f"axis {i}" for i in range(d)], **(members | changes))
    snapshot = structure(SnapshotBody, make_sample(SnapshotBody), strict=False)
    return replace(made, snapshot=snapshot, decode_id="63" * 32)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (1, 30), (40, 1), (5, 4), (40, 30)])
def test_a_page_of_any_size_is_one_file_below_300_kb(k: int, d: int) -> None:
    page = render_report(make(k, d), title="weather")
    assert len(page.encode()) < 300_000
    assert len(re.findall("<style", page)) == 1
    assert not re.search(r"<script|<link|<img|<iframe|\son\w+=|\sstyle=|(src|href)=|url\(", page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert "@import" not in style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src &#x27;none&#x27;; style-src &#x27;sha256-{digest}&#x27;" in page
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert pictures
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.attrib["aria-label"]
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for each in root.iter():
            for name, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
                assert 0.0 <= float(each.attrib.get(name, 0.0)) <= limit, each.attrib


@pytest.mark.parametrize("name", [HOSTILE, RTL, LONG])
def test_names_of_others_are_text(name: str) -> None:
    result = make(3, 2, [name, "flow"], warnings=[name])
    page = render_report(result, title=name, origin=name)
    assert "<script" not in page
    assert page.count("</style>") == 1
    assert f"<h1><bdi>{html.escape(name)}</bdi></h1>" in page
    assert f"<figcaption><bdi>{html.escape(name)}</bdi>" in page


def test_the_verdict_comes_first_and_the_page_names_all_that_a_check_needs() -> None:
    result = make(3, 2, verdict={"word": "do not use", "sentence": "noise is too strong"})
    page = render_report(result, title="weather", origin="client.decode(...)")
    assert "<title>do not use: weather</title>" in page
    assert page.index("do not use</strong>") < page.index("<svg")
    assert result.snapshot is not None
    for each in (
        result.snapshot.digest,
        result.snapshot_id,
        result.decode_id,
        compute_plan_digest(result.plan).hex(),
        "mixture version 2",
        "<dt>seed</dt><dd><code>3</code>",
        "sound up to 1.2, rough up to 1.4, doubtful up to 2.5",
        html.escape(make_statement(result.plan).unprotected[0]),
        "Cannot be told from noise: 1.",
        "Nine in ten bars hold the truth.",
        "client.decode(...)",
    ):
        assert each in page


@pytest.mark.parametrize("kind", [[], ["--exact"]])
def test_files_of_sketches_have_a_report_that_says_whether_they_are_private(
    kind: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = make_plan()
    records = draw_records(0, 2000)
    np.save("x.npy", records)
    Path("plan.json").write_text(json.dumps(plan_to_json(plan)), encoding="utf-8")
    assert command.main(["sketch", "x.npy", "--plan", "plan.json", "-o", "x.sketch", *kind]) == 0
    decode = ["decode", "file", "x.sketch", "--plan", "plan.json", "-k", "3", "-o", "r.json"]
    assert command.main([*decode, "--allow-unusable"]) == 0
    assert command.main(["report", "r.json", "-o", "r.html"]) == 0
    result, page = DecodeResult.load("r.json"), Path("r.html").read_text(encoding="utf-8")
    assert len(result.digest) == 64
    assert result.digest in page
    assert ("differentially private" in page) is (kind == [])
    assert html.escape(result.privacy[1:]) in page
    assert set(np.unique(result.predict(records))) <= {0, 1, 2}
    np.testing.assert_allclose(result.predict_proba(records).sum(axis=1), 1.0)


def test_the_command_writes_a_page_from_a_file_without_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "spring.json", tmp_path / "r.html"
    make(3, 2).save(source)
    assert command.main(["report", str(source), "-o", str(output)]) == 0
    assert "rough: noise is strong" in capsys.readouterr().out
    assert "<h1><bdi>spring</bdi></h1>" in output.read_text(encoding="utf-8")
    assert command.main(["report", str(source), "-o", str(tmp_path / "r.pdf")]) == 2
    assert "--output: must end with .html" in capsys.readouterr().err

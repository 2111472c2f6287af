"""What each client offers, and the test that shows it: ``python -m tests.interop.matrix``.

The command writes the page ``docs/reference/clients.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from docs.generator.markdown import join_parts, write_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/clients.md"

CLIENTS: Mapping[str, str] = {
    "python": "Python agent",
    "node": "JavaScript in Node",
    "chromium": "JavaScript in Chromium",
    "react_native": "JavaScript with React Native's interfaces, in Node",
    "hermes": "JavaScript in Hermes 0.12",
    "c": "C",
    "arm": "C for a Cortex-M4, emulated",
}
_JAVASCRIPT = ("node", "chromium", "react_native")
_C = ("c", "arm")


YES, REFUSED, NOT_OFFERED, NOT_TRIED = "yes", "refused by name", "not offered", "not tried"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The state of one capability in one client.

    Parameters
    ----------
    state
        ``YES`` and ``REFUSED`` are shown by a test.
    test
        A file and a function in it.
    why
        The reason of the other two states.
    """

    state: str
    test: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One capability; ``family`` is its file of vectors, None where a server decides."""

    name: str
    cells: Mapping[str, Cell]
    family: str | None = None


def _shown(test: str, *clients: str) -> dict[str, Cell]:
    return dict.fromkeys(clients, Cell(state=YES, test=test))


def _refused(test: str, *clients: str) -> dict[str, Cell]:
    return dict.fromkeys(clients, Cell(state=REFUSED, test=test))


def _not_offered(why: str, *clients: str) -> dict[str, Cell]:
    return dict.fromkeys(clients, Cell(state=NOT_OFFERED, why=why))


def _not_tried(why: str, *clients: str) -> dict[str, Cell]:
    return dict.fromkeys(clients, Cell(state=NOT_TRIED, why=why))


_IN_JAVASCRIPT = "tests/interop/test_vectors.py::test_javascript_reproduces_the_vectors"
_IN_HERMES = "tests/interop/test_hermes.py::test_hermes_reproduces_the_vectors"
_RECIPE = (
    "tests/interop/test_hermes.py::"
    "test_the_component_of_the_docs_takes_part_in_hermes_from_the_packed_package"
)
_IN_C = "tests/clients/c/test_vectors.py::"
_CORE, _WIRE = "tests/shared/core/test_vectors.py::", "tests/shared/wire/test_vectors.py::"
_REFUSED_IN_C = (
    "tests/clients/c/test_make_plan.py::"
    "test_a_plan_that_the_device_does_not_compute_is_refused_by_name"
)
_OF_NOISE = (
    "tests/device_agent/test_once.py::"
    "test_released_sums_are_the_exact_sums_plus_noise_of_the_planned_size"
)
_ONE_SUM = "tests/interop/test_one_sum.py::test_four_devices_make_one_sum_that_is_exact"
_IN_NODE = "tests/clients/js/test_real_server.py::"
_EVERY_PLAN = (
    "tests/interop/test_every_plan.py::"
    "test_a_device_under_every_kind_of_plan_is_taken_by_the_server"
)
_OVER_STORAGES = (
    "tests/clients/js/test_react_native.py::"
    "test_records_count_once_and_exactly_over_either_shape_of_storage"
)
_PILOTS = "tests/system/test_pilots.py::"
_C_SERVER = "tests/clients/c/test_real_server.py::"
_SAME_MODULES = "the modules are those of Node"
_NO_LABELS = "a microcontroller labels no records"
_BY_COMPUTER = "a computer enrols the device"


def _family(family: str, name: str, python: str, in_c: str | dict[str, Cell]) -> Row:
    c = _shown(_IN_C + in_c, *_C) if isinstance(in_c, str) else in_c
    cells = _shown(python, "python") | _shown(_IN_JAVASCRIPT, *_JAVASCRIPT) | c
    cells |= _shown(_IN_HERMES, "hermes")
    return Row(name=name, family=family, cells=cells)


_ROWS: tuple[Row, ...] = (
    _family(
        "features",
        "integer features of every phase",
        _CORE + "test_features_are_those_published",
        "test_features_are_those_of_the_vectors_at_every_phase",
    ),
    _family(
        "frequencies",
        "frequencies from the seed",
        _CORE + "test_frequencies_of_a_seed_are_those_published",
        "test_frequencies_are_drawn_from_the_seed_bit_for_bit",
    ),
    _family(
        "sketches",
        "sums of records, and masks",
        _CORE + "test_sums_of_records_are_those_published",
        "test_sums_and_steps_of_records_are_those_of_the_vectors",
    ),
    _family(
        "blocks",
        "split frequencies",
        _CORE + "test_blocks_of_a_seed_are_those_published",
        _refused(_REFUSED_IN_C, *_C),
    ),
    _family(
        "kinds",
        "logarithmic scales, levels, bins, clusters",
        _CORE + "test_bins_cells_and_moments_are_those_published_in_every_engine",
        _refused(_REFUSED_IN_C, *_C),
    ),
    _family(
        "noise",
        "exact noise from given bytes",
        "tests/shared/privacy/test_samplers.py::test_exponential_variates_are_those_published",
        "test_exponential_variates_are_those_of_the_vectors_from_the_same_bytes",
    ),
    _family(
        "reports",
        "phase reports, and reports of bins",
        "tests/shared/privacy/test_circle.py::test_laws_are_those_published_and_so_are_their_draws",
        _refused(_REFUSED_IN_C, *_C),
    ),
    _family(
        "enrolment",
        "enrolment codes and proofs",
        _WIRE + "test_the_vectors_are_those_that_the_command_makes",
        _not_offered(_BY_COMPUTER, *_C),
    ),
    _family(
        "requests",
        "signed requests",
        _WIRE + "test_the_vectors_are_those_that_the_command_makes",
        "test_signed_requests_are_those_of_the_vectors",
    ),
    _family(
        "messages",
        "signed messages",
        _WIRE + "test_the_vectors_are_those_that_the_command_makes",
        "test_messages_are_those_of_the_vectors",
    ),
    _family(
        "results",
        "published results, and labels by them",
        _WIRE + "test_the_vectors_are_those_that_the_command_makes",
        _not_offered(_NO_LABELS, *_C),
    ),
    _family(
        "sum",
        "masked sums and seals",
        "tests/shared/sharing/test_vectors.py::test_the_code_still_makes_the_vectors",
        _refused(_REFUSED_IN_C, *_C),
    ),
    Row(
        family="public_keys",
        name="public keys that prove nothing are refused",
        cells=_shown(
            "tests/shared/wire/test_identities.py::"
            "test_the_key_is_taken_or_refused_as_the_vector_says",
            "python",
        )
        | _not_offered("only servers are given the keys of strangers", *_JAVASCRIPT, "hermes", *_C),
    ),
    Row(
        name="enrols at a server by itself",
        cells=_shown(_ONE_SUM, "python", "node", "chromium")
        | _shown(_OVER_STORAGES, "react_native")
        | _shown(_RECIPE, "hermes")
        | _not_offered(_BY_COMPUTER, *_C),
    ),
    Row(
        name="its release counts once, exactly",
        cells=_shown(_ONE_SUM, "python", "node", "chromium", "arm")
        | _shown(_OVER_STORAGES, "react_native")
        | _shown(_C_SERVER + "test_an_agent_in_python_and_a_device_in_c_make_one_exact_sum", "c"),
    ),
    Row(
        name="sends through a relay",
        cells=_not_offered("it speaks HTTPS itself", "python", *_JAVASCRIPT)
        | _shown(
            _C_SERVER
            + "test_the_example_sends_through_a_relay_and_sends_again_what_no_answer_came_for",
            "c",
        )
        | _shown(_ONE_SUM, "arm"),
    ),
    Row(
        name="the same bytes again, or none, after a kill at any step",
        cells=_shown(
            "tests/device_agent/test_crash.py::"
            "test_killed_anywhere_either_nothing_was_released_or_the_same_bytes_are_sent",
            "python",
        )
        | _shown(
            "tests/clients/js/test_kills.py::"
            "test_a_device_that_is_killed_at_any_place_releases_every_record_once_or_never",
            "node",
            "react_native",
        )
        | _shown(
            "tests/clients/js/test_chromium.py::"
            "test_a_tab_that_is_killed_at_any_place_releases_every_record_once_or_never",
            "chromium",
        )
        | _shown(
            "tests/clients/c/test_power.py::"
            "test_after_any_two_cuts_the_same_bytes_are_sent_or_none_and_what_was_spent_stays",
            "c",
        )
        | _not_tried("the sources are those of this machine", "arm"),
    ),
    Row(
        name="Laplace and K-norm noise, windows by count",
        cells=_shown(_OF_NOISE, "python")
        | _shown(_EVERY_PLAN, *_JAVASCRIPT)
        | _shown(
            _C_SERVER + "test_messages_with_noise_of_either_kind_and_with_masks_are_accepted", "c"
        )
        | _not_tried("the sources are those of this machine", "arm"),
    ),
    Row(
        name="histograms",
        cells=_shown(
            _PILOTS + "test_the_histogram_of_a_study_of_some_slots_and_of_a_snapshot_is_shown",
            "python",
        )
        | _shown(_EVERY_PLAN, *_JAVASCRIPT)
        | _refused(_REFUSED_IN_C, *_C),
    ),
    Row(
        name="clusters of published centres",
        cells=_shown(_OF_NOISE, "python")
        | _shown(_EVERY_PLAN, *_JAVASCRIPT)
        | _refused(_REFUSED_IN_C, *_C),
    ),
    Row(
        name="moments, grids, Gaussian noise",
        cells=_shown(_PILOTS + "test_moments_of_a_study_are_shown", "python")
        | _refused(_IN_JAVASCRIPT, *_JAVASCRIPT)
        | _refused(_REFUSED_IN_C, *_C),
    ),
    Row(
        name="a secret number of records",
        cells=_shown(
            "tests/system/test_presence.py::"
            "test_two_devices_with_empty_windows_become_centroids_and_no_count_is_public",
            "python",
        )
        | _shown(_EVERY_PLAN, *_JAVASCRIPT)
        | _refused(_REFUSED_IN_C, *_C),
    ),
    Row(
        name="secure sums",
        cells=_shown(
            _IN_NODE
            + "test_devices_in_both_languages_make_one_secure_sum_that_two_servers_open_exactly",
            "python",
            "node",
        )
        | _not_tried(_SAME_MODULES, "chromium", "react_native")
        | _refused(_REFUSED_IN_C, *_C),
    ),
    Row(
        name="pulls a published result, and finds the clusters of its records",
        cells=_shown(
            "tests/device_agent/test_labels.py::"
            "test_each_line_of_a_file_gets_its_cluster_behind_it",
            "python",
        )
        | _shown(
            "tests/clients/js/test_results.py::"
            "test_a_device_labels_its_records_by_the_published_result_also_without_the_network",
            "node",
        )
        | _not_tried(_SAME_MODULES, "chromium", "react_native")
        | _not_offered(_NO_LABELS, *_C),
    ),
)


def _complete(row: Row) -> Row:
    """Fill in what is the same in all rows: the engine alone has no network and no storage."""
    lacking = _not_tried("the engine alone has no network and no storage", "hermes")
    return replace(row, cells=lacking | dict(row.cells))


ROWS = tuple(map(_complete, _ROWS))
FAMILIES_OF_JAVASCRIPT = tuple(
    row.family for row in ROWS if row.family and row.cells["node"].state == YES
)


def render_page() -> str:
    """Return the page."""
    table = [(row.name, *(row.cells[client].state for client in CLIENTS)) for row in ROWS]
    return join_parts(
        [
            "<!-- Generated by `python -m tests.interop.matrix`: change the matrix, not this "
            "page. -->",
            "# Clients and what they offer",
            "All clients reproduce the vectors of `tests/vectors`, bit for bit, and are tried "
            "under a real server. *Refused by name*: a device does not take part under such a "
            "plan, and says why.",
            write_table(("capability", *CLIENTS.values()), table),
            "## The test behind each entry",
            write_table(("test or reason", "state", "capabilities", "clients"), _list_evidence()),
        ]
    )


def _list_evidence() -> Iterator[tuple[str, str, str, str]]:
    """Yield each test or reason once for the clients that it is about, with all that it shows."""
    shown: dict[tuple[Cell, str], list[str]] = {}
    for row in ROWS:
        by_cell: dict[Cell, list[str]] = {}
        for client in CLIENTS:
            by_cell.setdefault(row.cells[client], []).append(CLIENTS[client])
        for cell, clients in by_cell.items():
            shown.setdefault((cell, ", ".join(clients)), []).append(row.name)
    for (cell, whose), names in shown.items():
        yield f"`{cell.test}`" if cell.test else cell.why, cell.state, "; ".join(names), whose


def main() -> None:
    """Write the page."""
    PAGE.write_text(render_page(), encoding="utf-8")


if __name__ == "__main__":
    main()

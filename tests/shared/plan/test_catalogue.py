import json
import math

import pytest

from sfumato.shared import command
from sfumato.shared.plan import find_cautions, plan_from_spec
from sfumato.shared.plan.catalogue import find_unit_doubt, list_ranges, offer_ranges


def test_every_usual_range_is_one_that_a_plan_may_have() -> None:
    ranges = list_ranges()
    assert len(ranges) > 100
    assert len({(usual.quantity, usual.unit) for usual in ranges}) == len(ranges)
    for usual in ranges:
        assert usual.quantity
        assert usual.unit.isprintable()
        assert -math.inf < usual.lower < usual.upper < math.inf
        assert 0 < usual.spread <= (usual.upper - usual.lower) / 2
        if not usual.suits_logarithm:
            # A box that is much wider than its values costs the search of the decoder.
            assert usual.upper - usual.lower <= 210 * usual.spread
        assert (usual.resolution is None) == (usual.octaves is None)
        if usual.resolution is not None and usual.octaves is not None:
            octaves = math.log2(1 + usual.upper / usual.resolution)
            assert usual.lower >= 0
            assert 0 < usual.resolution < usual.upper
            assert usual.octaves < octaves / 2


@pytest.mark.parametrize(
    ("name", "unit", "first"),
    [
        ("temperature", "°C", "air temperature, indoors"),
        ("outdoorTemp", "degF", "air temperature, outdoors"),
        ("PM2.5", "µg/m³", "fine dust, PM2.5"),
        ("heart_rate", "bpm", "heart rate"),
        ("battery_voltage", "V", "voltage of a 12 V battery"),
        ("wind speed", "km/h", "wind speed"),
        ("speed", "km/h", "speed of a vehicle"),
        ("column7", "hPa", "air pressure, sea level"),
        ("RSSI", "dBm", "received radio power, RSSI"),
        ("ph", "1", "acidity"),
    ],
)
def test_a_column_is_offered_what_its_name_or_unit_says(name: str, unit: str, first: str) -> None:
    assert offer_ranges(name, unit)[0].quantity == first


def test_the_command_lists_ranges_and_says_where_they_come_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["plan", "ranges", "humidity"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "relative humidity" in words
    assert "not read off any data" in words
    assert command.main(["plan", "ranges", "lux", "--json"]) == 0
    (light,) = json.loads(capsys.readouterr().out)
    assert (light["unit"], light["transform"]["kind"]) == ("lux", "log")
    assert command.main(["plan", "ranges", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(list_ranges())
    assert command.main(["plan", "ranges", "unicorns"]) == 2
    assert "WORD: matches none of the usual ranges" in capsys.readouterr().err


@pytest.mark.parametrize("unit", ["1", "", "°C", "kg/m3", "kWh/m2", "N m", "m s-2", "%/h"])
def test_a_unit_that_somebody_knows_is_not_doubted(unit: str) -> None:
    assert find_unit_doubt(unit) is None


def test_every_unit_of_the_catalogue_is_known() -> None:
    assert not [usual.unit for usual in list_ranges() if find_unit_doubt(usual.unit)]


@pytest.mark.parametrize(
    ("unit", "meant"), [("pmm", "ppm"), ("grad", "rad"), ("celcius", "degC"), ("px", "")]
)
def test_a_plan_with_a_unit_that_nobody_knows_is_doubted(unit: str, meant: str) -> None:
    dimension = {"name": "x", "unit": unit, "lower": 0.0, "upper": 9.0, "scale": 1.0}
    cautions = find_cautions(
        plan_from_spec(
            {
                "dimensions": [dimension],
                "n_frequencies": 20,
                "seed": "s",
                "epsilon": "1",
                "window": {"kind": "count", "length": 10},
                "most_records": 5000,
            }
        )
    )
    assert [text for text in cautions if text.startswith(f"dimensions.x: the unit {unit!r} is not")]
    assert meant in cautions[-1]

"""Files of intensity as publishers give them: their header, their times, their gaps and steps."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.service.intensity.csv_import import import_csv
from gramwatt.service.intensity.publishers import (
    EIA_FUELS,
    ENTSOE_FUELS,
    NESO_FUELS,
    IntensityFileError,
    Point,
    spans,
)
from tests.service.intensity.test_intensity import imported

MAPS = (
    "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),"
    "Carbon intensity gCO₂eq/kWh (Life cycle),Data source"
)
MIX = "DATETIME,GAS,COAL,NUCLEAR,WIND,WIND_EMB,HYDRO,IMPORTS,STORAGE,CARBON_INTENSITY"
BALANCE = (
    "Balancing Authority,Data Date,UTC Time at End of Hour,Net Generation (MW) from Coal,"
    "Net Generation (MW) from Natural Gas,Net Generation (MW) from Natural Gas (Adjusted),"
    "Net Generation (MW) from Wind"
)
ROWS = (
    "DateTime(UTC)\tResolutionCode\tAreaCode\tAreaDisplayName\tAreaTypeCode\tAreaMapCode\t"
    "ProductionType\tActualGenerationOutput[MW]\tActualConsumption[MW]"
)
TABLE = (
    '"Area","MTU{}","Biomass  - Actual Aggregated [MW]","Fossil Gas  - Actual Aggregated [MW]",'
    '"Nuclear  - Actual Aggregated [MW]"'
)
AEMO = "CONTRACTYEAR,WEEKNO,SETTLEMENTDATE,REGIONID,CO2E_INTENSITY_INDEX"


def stored(client, zone, day="2026-03-29", basis="lifecycle"):
    """The values that are kept of a day, by their start: those of the year left out."""
    query = f"from={day}T00:00Z&to={day}T23:59Z&basis={basis}"
    points = client.get(f"/v1/intensity/{zone}?{query}").json["points"]
    return {
        point["start"][11:16]: round(point["intensity_g_per_kwh"]["value"], 3)
        for point in points
        if point["quality"] != "annual"
    }


def row(code, minutes, fuel, at, amount, map_code="DE"):
    return f"2026-03-29 {at}\tPT{minutes}M\t{code}\tname\tBZN\t{map_code}\t{fuel}\t{amount}\t0"


GERMANY, SWEDEN = "10Y1001A1001A83F", "10Y1001A1001A46L"


@pytest.mark.parametrize(
    ("name", "zone", "basis", "lines", "values"),
    [
        (
            "electricity-maps",
            "DE",
            "lifecycle",
            [MAPS, *(f"2026-03-29 0{h}:00:00,a,b,DE,250,{310 + h},x" for h in range(3))],
            {"00:00": 310, "01:00": 311, "02:00": 312},
        ),
        (
            "electricity-maps",
            "DE",
            "lifecycle",
            [
                "Datetime (UTC),Carbon Intensity gCO₂eq/kWh (LCA)",
                "2026-03-29T02:00:00Z,312",  # newest first
                "2026-03-29T01:00:00Z,",
                "2026-03-29T00:00:00Z,310",
            ],
            {"00:00": 310, "02:00": 312},
        ),
        (
            "electricity-maps",
            "DE",
            "direct",
            [MAPS, *(f"2026-03-29 0{h}:00:00,a,b,DE,250,310,x" for h in (0, 1, 3))],
            {"00:00": 250, "01:00": 250, "03:00": 250},
        ),
        (
            "neso",
            "GB",
            "direct",
            ["datetime,actual,forecast,index", "2026-03-29T00:00Z,90,99,low",
             "2026-03-29T00:30Z,92,99,low"],
            {"00:00": 90, "00:30": 92},
        ),
        (
            "neso-mix",
            "GB",
            "lifecycle",
            # (100 x 490 + 300 x 12 + 50 x 11 + 50 x 11) / 500: imports and storage left out
            [MIX, "2026-03-29T00:00:00,100,0,300,50,50,0,70,9,111",
             "2026-03-29T00:30:00,100,0,300,50,50,0,70,9,112"],
            {"00:00": 107.4, "00:30": 107.4},
        ),
        (
            "eia-balance",
            "US-CAL-CISO",
            "lifecycle",
            # named by its end; the adjusted figure counts: (10 x 820 + 2000 x 490) / 2010
            [BALANCE, 'PJM,x,3/29/2026 1:00:00 AM,9,9,9,9',
             'CISO,x,3/29/2026 1:00:00 AM,10,"1,000","2,000",0',
             'CISO,x,3/29/2026 2:00:00 AM,10,1000,,0'],
            {"00:00": round(988200 / 2010, 3), "01:00": round(498200 / 1010, 3)},
        ),
        (
            "eia-api",
            "US-CAL-CISO",
            "lifecycle",
            ["period,respondent,fueltype,value,value-units",
             *(f"2026-03-29T0{h},CISO,{fuel},{mw},megawatthours"
               for h in (1, 2) for fuel, mw in (("NG", 100), ("SUN", 300)))],
            {"00:00": 158.5, "01:00": 158.5},
        ),
        (
            "entsoe-rows",
            "SE-SE3",
            "lifecycle",
            [ROWS, row(GERMANY, 60, "Fossil Gas", "00:00:00", 7),
             row(SWEDEN, 60, "Nuclear", "00:00:00", 300, "SE3"),
             row(SWEDEN, 60, "Wind Onshore", "00:00:00", 100, "SE3"),
             row(SWEDEN, 60, "Nuclear", "01:00:00", 300, "SE3"),
             row(SWEDEN, 60, "Wind Onshore", "01:00:00", 300, "SE3")],
            {"00:00": 11.75, "01:00": 11.5},
        ),
        (
            "entsoe-rows",
            "DE",
            "lifecycle",
            # from 60 to 15 minutes at one o'clock
            [ROWS, row(GERMANY, 60, "Fossil Gas", "00:00:00", 7),
             *(row(GERMANY, 15, "Fossil Gas", f"01:{m:02d}:00", 7) for m in (0, 15))],
            {"00:00": 490, "01:00": 490, "01:15": 490},
        ),
        (
            "entsoe-table",
            "DE",
            "lifecycle",
            [TABLE.format(" (UTC)"),
             '"DE","29.03.2026 00:00 - 29.03.2026 01:00","0","100","300"',
             '"DE","29.03.2026 01:00 - 29.03.2026 02:00","n/e","100","300"',
             '"DE","29.03.2026 02:00 - 29.03.2026 03:00","-","-","-"'],
            {"00:00": 131.5, "01:00": 131.5},
        ),
        (
            "entsoe-table",
            "DE",
            "lifecycle",
            # the hour that is not there: 01:00 CET is 00:00 UTC, 03:00 CEST is 01:00
            [TABLE.format(" (CET/CEST)"),
             '"DE","29.03.2026 01:00 - 29.03.2026 02:00","0","100","300"',
             '"DE","29.03.2026 03:00 - 29.03.2026 04:00","0","0","300"'],
            {"00:00": 131.5, "01:00": 12},
        ),
    ],
)  # fmt: skip
def test_a_publishers_file_is_taken_as_it_is(
    client, light, tmp_path, name, zone, basis, lines, values
):
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    answer = import_csv(light, path, zone, basis, "average")
    assert answer.format == name
    found = stored(client, zone, basis=basis)
    if name == "entsoe-rows" and zone == "DE":  # points of equal value are shown as they are kept
        assert {found[at] for at in values} == {490}
    else:
        assert found == values
    known = [value for value in values.values() if not math.isnan(value)]
    assert answer.low_g_per_kwh == pytest.approx(min(known), abs=1e-3)
    assert answer.high_g_per_kwh == pytest.approx(max(known), abs=1e-3)


def test_what_is_derived_from_fuels_has_their_range_and_what_is_stated_its_own(
    client, light, tmp_path
):
    for zone, name, lines in (
        ("GB", "mix.csv", [MIX, *(f"2026-03-29T0{h}:00:00,1,0,0,0,0,0,0,0,9" for h in (0, 1))]),
        ("DE", "maps.csv", [MAPS, *(f"2026-03-29 0{h}:00:00,a,b,DE,1,310,x" for h in (0, 1))]),
    ):
        path = tmp_path / name
        path.write_text("\n".join(lines), encoding="utf-8")
        import_csv(light, path, zone, "lifecycle", "average")
    for zone, part in (("GB", 0.3), ("DE", 0.1)):
        span = "from=2026-03-29T00:00Z&to=2026-03-29T01:00Z"
        [point] = client.get(f"/v1/intensity/{zone}?{span}").json["points"]
        figure = point["intensity_g_per_kwh"]
        assert figure["high"] == pytest.approx(figure["value"] * (1 + part))


def test_the_hour_that_comes_twice_in_autumn_is_told_apart_by_its_order(client, light, tmp_path):
    hours = ("01:00", "02:00", "02:00", "03:00")
    lines = [TABLE.format(" (CET/CEST)")]
    lines += [
        f'"DE","25.10.2026 {at} - 25.10.2026 09:00","0","{n}","{100 - n}"'
        for n, at in enumerate(hours)
    ]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines))
    imported(light, path, "DE")
    # 01:00 and the first 02:00 are CEST, the second and 03:00 CET: 23:00, then 0 to 2 h UTC.
    assert list(stored(client, "DE", "2026-10-25")) == ["00:00", "01:00", "02:00"]


def test_a_value_a_day_is_that_of_its_hours_and_it_is_said(client, light, tmp_path):
    """AEMO's index is in t/MWh, and its day begins at 14:00 UTC of the day before."""
    path = tmp_path / "x.csv"
    days = (f"2026,1,2026/03/{day} 00:00:00,NSW1,0.6{n}" for n, day in enumerate((28, 29)))
    path.write_text("\n".join([AEMO, *days, "2026,1,2026/03/29 00:00:00,VIC1,0.9"]))
    answer = import_csv(light, path, "AU-NSW", "direct", "average")
    assert (answer.points, answer.start) == (48, "2026-03-27T14:00:00Z")
    assert answer.high_g_per_kwh == pytest.approx(610)
    assert "value a day" in answer.notices[-1].message
    assert answer.used is False


def test_a_file_that_does_not_fit_is_refused_with_what_to_do(light, tmp_path):
    for zone, basis, lines, said in [
        ("FR", "lifecycle", [MAPS, "2026-03-29 00:00:00,a,b,DE,1,2,x"], "the file is of zone DE"),
        (
            "GB",
            "lifecycle",
            ["datetime,actual,forecast,index", "2026-03-29T00:00Z,90,99,low"],
            "give --basis direct",
        ),
        (
            "DE",
            "lifecycle",
            [ROWS, row(SWEDEN, 60, "Nuclear", "00:00:00", 3, "SE3")],
            "no row of zone DE; it has SE3",
        ),
        (
            "DE",
            "lifecycle",
            [ROWS, row(GERMANY, 60, "Unobtainium", "00:00:00", 3)],
            "'unobtainium' is not a fuel",
        ),
        ("DE", "lifecycle", [MAPS, "2026-03-29 00:00:00,a,b,DE,250,310"], "6 columns instead of 7"),
        ("DE", "lifecycle", [MAPS, "2026-03-29 00:00:00,a,b,DE,250,lots,x"], "not a number"),
        ("DE", "lifecycle", [MAPS, "soon,a,b,DE,250,1,x"], "'soon' is not a time"),
        (
            "DE",
            "lifecycle",
            [MAPS, *(f"2026-03-29 00:00:00,a,b,DE,1,{n},x" for n in (310, 311))],
            "has 311, and 310 on line 2",
        ),
        (
            "DE",
            "lifecycle",
            ["point_time,value", "2026-03-29T00:00Z,800"],
            "the columns are start_utc,g_per_kwh, in this order, or those of a file of Electricity",
        ),
    ]:
        path = tmp_path / "x.csv"
        path.write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises(IntensityFileError) as refused:
            import_csv(light, path, zone, basis, "average")
        assert said in str(refused.value)


def points(*minutes):
    start = datetime(2025, 9, 30, 22, tzinfo=UTC)
    return [
        Point(f"line {n}", start + timedelta(minutes=m), float(m)) for n, m in enumerate(minutes)
    ]


def test_a_step_that_changes_within_a_file_is_taken():
    found = spans(points(0, 60, 120, 135, 150, 165))
    assert [(span.step.total_seconds() / 60, len(span.values)) for span in found] == [
        (60, 2),
        (15, 4),
    ]
    assert found[0].end == found[1].start
    back = spans(points(0, 15, 30, 45, 60, 120, 180))
    assert [span.values for span in back] == [[0, 15, 30, 45], [60, 120, 180]]


def test_a_missing_row_is_refused_and_in_a_publishers_file_not_known():
    with pytest.raises(IntensityFileError, match="line 2: starts at .* is due"):
        spans(points(0, 60, 180, 240))
    [span] = spans(points(0, 60, 180, 240), gaps=True)
    assert [math.isnan(value) for value in span.values] == [False, False, True, False, False]


def test_hours_that_begin_at_half_past_are_kept_as_half_hours():
    """An hour of India begins at half past in UTC."""
    [span] = spans(points(30, 90))
    assert (span.step, span.values) == (timedelta(minutes=30), [30, 30, 90, 90])


def test_every_fuel_of_a_publisher_has_a_factor():
    from gramwatt.sci.grid.fuels import IMPORTS, STORAGE, mix_intensity

    for fuels in (EIA_FUELS, ENTSOE_FUELS, NESO_FUELS):
        for fuel in set(fuels.values()) - {STORAGE, IMPORTS}:
            assert mix_intensity({fuel: 1.0}, "lifecycle") is not None

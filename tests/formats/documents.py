"""JSON documents, and files that are packed."""

import gzip
from base64 import b64decode

from tests.formats.declaration import Format

DOCUMENTS = (
    Format(
        name="ThingSpeak, `feeds`",
        file="feeds.json",
        written="""{"channel":{"id":9,"name":"cellar","feeds":"2"},"feeds":[
{"created_at":"2026-01-01T00:00:00Z","entry_id":1,"field1":"21.5","field2":"48"},
{"created_at":"2026-01-01T00:00:15Z","entry_id":2,"field1":"21.6","field2":null}]}
""",
        settings="""
kind = "jsonl"
records = "feeds"
timestamp = "created_at"
[columns]
temperature = "field1"
humidity = "field2"
""",
        records="""
2026-01-01T00:00:00 21.5 48
2026-01-01T00:00:15 21.6 nan
""",
    ),
    Format(
        name="A web interface, `data.items`",
        file="answer.json",
        written="""{
  "status": "ok",
  "data": {
    "count": 2,
    "items": [
      {"t": 1767225600, "air": {"pm25": 4.5}},
      {"t": 1767225660, "air": {"pm25": "5"}}
    ]
  }
}
""",
        settings="""
kind = "jsonl"
records = "data.items"
timestamp = "t"
timestamp_format = "unix"
[columns]
pm25 = "air.pm25"
""",
        records="""
2026-01-01T00:00:00 4.5
2026-01-01T00:01:00 5
""",
    ),
    Format(
        name="A top-level list",
        file="list.json",
        written='[{"time":"2026-01-01T00:00:00Z","x":1},{"time":"2026-01-01T00:01:00Z","x":2}]',
        settings="""
kind = "jsonl"
records = "."
timestamp = "time"
[columns]
x = "x"
""",
        records="""
2026-01-01T00:00:00 1
2026-01-01T00:01:00 2
""",
    ),
    Format(
        name="Weather Underground, `observations`",
        file="wu.json",
        written="""{"observations":[
{"epoch":1767225600,"stationID":"X","metric":{"temp":3,"windSpeed":18,"pressure":1013.2}},
{"epoch":1767225900,"stationID":"X","metric":{"temp":2,"windSpeed":null,"pressure":1013.1}}]}
""",
        settings="""
kind = "jsonl"
records = "observations"
timestamp = "epoch"
timestamp_format = "unix"
[columns]
temperature = "metric.temp"
wind = { field = "metric.windSpeed", convert = "km/h -> m/s" }
""",
        records="""
2026-01-01T00:00:00 3 5
2026-01-01T00:05:00 2 nan
""",
        is_guessed=False,
    ),
    Format(
        name="SenML, resolved",
        file="pack.json",
        written="""[{"n":"urn:dev:ow:1:temp","u":"Cel","t":1767225600,"v":21.5},
{"n":"urn:dev:ow:1:hum","u":"%RH","t":1767225601,"v":48},
{"n":"urn:dev:ow:1:temp","u":"Cel","t":1767225660,"v":21.75}]
""",
        settings="""
kind = "jsonl"
records = "."
timestamp = "t"
timestamp_format = "unix"
[join]
key = "n"
value = "v"
every_s = 60
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T00:02:00Z"
[columns]
temperature = "urn:dev:ow:1:temp"
humidity = { field = "urn:dev:ow:1:hum", convert = "% -> 1" }
""",
        records="""
2026-01-01T00:00:00 21.5 0.48
2026-01-01T00:01:00 21.75 nan
""",
        is_guessed=False,
    ),
    Format(
        name="CSV packed by gzip",
        file="day.csv.gz",
        written=gzip.compress(b"time,x\n2026-01-01T00:00:00Z,1\n2026-01-01T00:01:00Z,2\n", mtime=0),
        settings="""
kind = "csv"
packed = "gzip"
timestamp = "time"
[columns]
x = "x"
""",
        records="""
2026-01-01T00:00:00 1
2026-01-01T00:01:00 2
""",
    ),
    Format(
        name="JSON lines packed by zstd (with `sfumato[parquet]`)",
        file="day.jsonl.zst",
        written=b64decode("KLUv/QRYNQEA8HsidGltZSI6MTc2NzIyNTYwMCwieCI6MX0KNjJ9CgIAYBA2MsdNEDM4"),
        settings="""
kind = "jsonl"
packed = "zstd"
timestamp = "time"
timestamp_format = "unix"
[columns]
x = "x"
""",
        records="""
2026-01-01T00:00:00 1
2026-01-01T00:01:00 2
""",
    ),
    Format(
        name="A JSON document in UTF-16, packed",
        file="all.json.gz",
        written=gzip.compress('{"r":[{"ü":1},{"ü":2.5}]}'.encode("utf-16"), mtime=0),
        settings="""
kind = "jsonl"
packed = "gzip"
encoding = "utf-16"
records = "r"
[columns]
x = "ü"
""",
        records="""
- 1
- 2.5
""",
    ),
)

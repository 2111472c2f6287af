"""Formats that no source reads, each with the command that turns it into lines."""

from tests.formats.declaration import Refused

_CSV = """
kind = "csv"
timestamp = "time"
[columns]
x = "x"
"""
_LINES = _CSV.replace("csv", "jsonl")

REFUSED = (
    Refused(
        name="Prometheus' text without times",
        file="metrics.prom",
        written="""# HELP room_celsius Temperature of a room
# TYPE room_celsius gauge
room_celsius{room="kitchen"} 21.5
room_celsius{room="hall"} 18.25
""",
        settings="""
kind = "csv"
delimiter = "blanks"
header = ["metric", "x", "time"]
timestamp = "time"
[columns]
x = "x"
""",
        why="has values without times",
        command="awk -v t=$(date +%s000) '!/^#/ {print $0, t}' metrics.prom >> metrics.log",
    ),
    Refused(
        name="OpenTelemetry's file exporter",
        file="otel.json",
        written='{"resourceMetrics":[{"resource":{},"scopeMetrics":[{"metrics":['
        '{"name":"system.cpu.utilization","gauge":{"dataPoints":[{"attributes":[{"key":"cpu",'
        '"value":{"stringValue":"cpu0"}}],"timeUnixNano":"1767225600000000000",'
        '"asDouble":0.25}]}},{"name":"system.memory.usage","sum":{"dataPoints":['
        '{"timeUnixNano":"1767225600000000000","asInt":"8231"}]}}]}]}]}\n',
        settings=_LINES,
        why="has many points a line",
        command="jq -c '.resourceMetrics[]",
        made='{"time":"1767225600000000000","name":"system.cpu.utilization","value":0.25,'
        '"cpu":"cpu0"}\n'
        '{"time":"1767225600000000000","name":"system.memory.usage","value":"8231"}\n',
    ),
    Refused(
        name="Prometheus' answers to queries",
        file="range.json",
        written='{"status":"success","data":{"resultType":"matrix","result":[{"metric":'
        '{"room":"hall"},"values":[[1767225600,"18.25"],[1767225660,"18.5"]]}]}}',
        settings=_LINES.replace("[columns]", 'records = "data.result"\n[columns]'),
        why="holds lists of pairs",
        command="jq -c '.data.result[]",
        made='{"time":1767225600,"value":"18.25","room":"hall"}\n'
        '{"time":1767225660,"value":"18.5","room":"hall"}\n',
    ),
    Refused(
        name="SenML with base names and times",
        file="pack.json",
        written='[{"bn":"urn:1:","bt":1767225600,"n":"temp","u":"Cel","v":21.5},'
        '{"n":"hum","u":"%RH","t":1,"v":48}]',
        settings="""
kind = "jsonl"
records = "."
timestamp = "t"
timestamp_format = "unix"
[columns]
x = "x"
""",
        why="is SenML whose records depend on the first one",
        command="jq -c 'foreach .[] as $r",
        made='{"n":"urn:1:temp","t":1767225600,"v":21.5}\n'
        '{"n":"urn:1:hum","t":1767225601,"v":48}\n',
    ),
    Refused(
        name="Open-Meteo, a list for each column",
        file="forecast.json",
        written='{"latitude":52.5,"hourly_units":{"time":"iso8601"},"hourly":'
        '{"time":["2026-01-01T00:00","2026-01-01T01:00"],"temperature_2m":[3.5,3.1]}}',
        settings=_LINES.replace("[columns]", 'records = "hourly"\n[columns]'),
        why="is a JSON document without a list of objects",
        command="jq -c '.hourly | range(.time | length) as $i | map_values(",
        made='{"time":"2026-01-01T00:00","temperature_2m":3.5}\n'
        '{"time":"2026-01-01T01:00","temperature_2m":3.1}\n',
    ),
    Refused(
        name="CloudWatch, `aws cloudwatch get-metric-data`",
        file="metrics.json",
        written='{"MetricDataResults":[{"Id":"m1","Timestamps":["2026-01-01T00:00:00+00:00",'
        '"2026-01-01T00:05:00+00:00"],"Values":[20.5,21.5]},{"Id":"m2","Timestamps":'
        '["2026-01-01T00:00:00+00:00"],"Values":[7.5]}]}',
        settings="""
kind = "jsonl"
records = "MetricDataResults"
timestamp = "Timestamps.0"
[columns]
x = "Values.0"
""",
        why="has its times in lists, so that an object holds many records",
        command="jq -c '.MetricDataResults[] | range(.Timestamps | length) as $i | map_values(",
        made='{"Id":"m1","Timestamps":"2026-01-01T00:00:00+00:00","Values":20.5}\n'
        '{"Id":"m1","Timestamps":"2026-01-01T00:05:00+00:00","Values":21.5}\n'
        '{"Id":"m2","Timestamps":"2026-01-01T00:00:00+00:00","Values":7.5}\n',
    ),
    Refused(
        name="pandas, `to_json`",
        file="frame.json",
        written='{"time":{"0":"2026-01-01","1":"2026-01-02"},"x":{"0":1.5,"1":2.5}}',
        settings="""
kind = "jsonl"
records = "time"
[columns]
x = "x.0"
""",
        why="is a JSON document without a list of objects",
        command="jq -c '(to_entries[0].value | keys_unsorted[]) as $i | map_values(.[$i])'",
        made='{"time":"2026-01-01","x":1.5}\n{"time":"2026-01-02","x":2.5}\n',
    ),
    Refused(
        name="Home Assistant, `recorder/statistics_during_period`",
        file="statistics.json",
        written='{"sensor.kitchen":[{"start":1767225600000,"mean":21.5},'
        '{"start":1767229200000,"mean":21.75}]}',
        settings="""
kind = "jsonl"
records = "sensor.kitchen"
[columns]
x = "mean"
""",
        why="is a JSON document without a list of objects",
        command="jq -c '.\"sensor.kitchen\"[]'",
        made='{"start":1767225600000,"mean":21.5}\n{"start":1767229200000,"mean":21.75}\n',
    ),
    Refused(
        name="Netatmo, `getmeasure` with times as keys",
        file="measure.json",
        written='{"body":{"1767225600":[6.5,80],"1767225900":[6.25,81]},"status":"ok"}',
        settings="""
kind = "jsonl"
records = "body"
[columns]
x = "0"
""",
        why="is a JSON document without a list of objects",
        command="jq -c '.body | to_entries[] | {time: .key, value}'",
        made='{"time":"1767225600","value":[6.5,80]}\n{"time":"1767225900","value":[6.25,81]}\n',
    ),
    Refused(
        name="Kafka Connect, `FileStreamSink` without a converter to text",
        file="sink.txt",
        written="{ts=2026-01-01T00:00:00Z, rpm=1490}\n{ts=2026-01-01T00:00:01Z, rpm=1492}\n",
        settings=_LINES,
        why="is the text of a map of Java",
        command="value.converter=org.apache.kafka.connect.storage.StringConverter",
    ),
    Refused(
        name="Names and values in each line (logfmt)",
        file="app.log",
        written="time=2026-01-01T00:00:00Z x=21.5\ntime=2026-01-01T00:01:00Z x=21.6\n",
        settings=_CSV,
        why="has names in each line",
        command="mlr --idkvp --ifs ' ' --ojsonl cat app.log > app.jsonl",
    ),
    Refused(
        name="NMEA 0183",
        file="gps.log",
        written="$GPRMC,100000,A,5230.978,N,01322.662,E,2.4,0,010126,,*1A\n"
        "$GPRMC,100005,A,5230.984,N,01322.674,E,2.9,0,010126,,*12\n",
        settings=_CSV,
        why="is NMEA 0183, whose degrees and minutes are no numbers",
        command="gpsbabel -t -i nmea -f gps.log -o unicsv -F gps.csv",
    ),
    Refused(
        name="GPX",
        file="track.gpx",
        written='<?xml version="1.0"?>\n<gpx version="1.1"><trk><trkseg>\n'
        '<trkpt lat="52.5163" lon="13.3777"><time>2026-01-01T10:00:00Z</time></trkpt>\n',
        settings=_CSV,
        why="is GPX",
        command="gpsbabel -t -i gpx -f track.gpx -o unicsv -F track.csv",
    ),
    Refused(
        name="Other XML",
        file="meter.xml",
        written='<?xml version="1.0"?>\n<feed><entry><value>3</value></entry></feed>\n',
        settings=_CSV,
        why="is XML",
        command="yq -p xml -o json meter.xml > meter.json",
    ),
    Refused(
        name="A spreadsheet as it is: XLSX, ODS",
        file="table.xlsx",
        written=b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0[Content_Types].xml\xff\xd0\n\x01\n",
        settings=_CSV,
        why="is a spreadsheet",
        command="libreoffice --headless --convert-to csv table.xlsx",
    ),
    Refused(
        name="A zip archive",
        file="day.zip",
        written=b"PK\x03\x04\x14\0\0\0\x08\0\0\0!\0day.csv\xff\xd0\n\x01\n",
        settings=_CSV,
        why="is a zip archive",
        command="unzip -p day.zip > day.csv",
    ),
    Refused(
        name="bzip2",
        file="day.csv.bz2",
        written=b"BZh91AY&SY\x9a\xf4\n\xd1\0\n",
        settings=_CSV,
        why="is packed by bzip2",
        command="bunzip2 -k day.csv.bz2",
    ),
    Refused(
        name="xz",
        file="day.csv.xz",
        written=b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F\n\0\n",
        settings=_CSV,
        why="is packed by xz",
        command="unxz -k day.csv.xz",
    ),
    Refused(
        name="UTF-16 without a mark of byte order",
        file="table.txt",
        written="time\tx\n2026-01-01T00:00:00Z\t1\n".encode("utf-16-le"),
        settings=_CSV.replace("[columns]", 'delimiter = "\\t"\n[columns]'),
        why="is UTF-16 without a mark of byte order",
        command="iconv -f utf-16le -t utf-8 table.txt > table.utf8.txt",
        made="time\tx\n2026-01-01T00:00:00Z\t1\n",
    ),
    Refused(
        name="Any other binary file",
        file="data.bin",
        written=b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\n",
        settings=_CSV,
        why="is no text",
        command="let the program that writes it export CSV",
    ),
)

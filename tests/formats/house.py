"""Formats of home automation, message brokers and collectors: mostly a JSON object per line."""

from tests.formats.declaration import Format

HOUSE = (
    Format(
        name="Home Assistant, history as CSV",
        file="history.csv",
        written="""entity_id,state,last_changed
sensor.kitchen_temperature,21.5,2026-01-01T00:00:10.123Z
sensor.kitchen_humidity,48,2026-01-01T00:00:40.001Z
sensor.kitchen_temperature,unavailable,2026-01-01T00:05:00.000Z
sensor.kitchen_humidity,50.5,2026-01-01T00:06:00.000Z
sensor.kitchen_temperature,21.75,2026-01-01T00:11:00.000Z
sensor.kitchen_temperature,22,2026-01-01T00:12:00.000Z
""",
        settings="""
kind = "csv"
timestamp = "last_changed"
[join]
key = "entity_id"
value = "state"
every_s = 300
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T00:15:00Z"
[columns]
temperature = "sensor.kitchen_temperature"
humidity = "sensor.kitchen_humidity"
""",
        records="""
2026-01-01T00:00:00 21.5 48
2026-01-01T00:05:00 nan 50.5
2026-01-01T00:10:00 22 nan
""",
        is_guessed=False,
    ),
    Format(
        name="Zigbee2MQTT, payloads in a log",
        file="kitchen.jsonl",
        written="""{"battery":97,"humidity":48.1,"last_seen":"2026-01-01T01:00:00+01:00","temperature":21.5}
{"battery":97,"humidity":48.3,"last_seen":"2026-01-01T01:05:00+01:00","temperature":null}
""",
        settings="""
kind = "jsonl"
timestamp = "last_seen"
[columns]
temperature = "temperature"
humidity = "humidity"
""",
        records="""
2026-01-01T00:00:00 21.5 48.1
2026-01-01T00:05:00 nan 48.3
""",
    ),
    Format(
        name="Tasmota, `tele/…/SENSOR` in a log",
        file="plug.jsonl",
        written="""{"Time":"2026-01-01T10:00:00","ENERGY":{"Total":3.185,"Power":11,"Voltage":234}}
{"Time":"2026-01-01T10:05:00","ENERGY":{"Total":3.186,"Power":0,"Voltage":233}}
""",
        settings="""
kind = "jsonl"
timestamp = "Time"
timestamp_zone = "Europe/Berlin"
[columns]
power = "ENERGY.Power"
voltage = "ENERGY.Voltage"
""",
        records="""
2026-01-01T09:00:00 11 234
2026-01-01T09:05:00 0 233
""",
    ),
    Format(
        name="Shelly, status of the second generation",
        file="shelly.jsonl",
        written="""{"ts":1767225600.12,"switch:0":{"id":0,"output":true,"apower":11.3,"voltage":233.1}}
{"ts":1767225660.02,"switch:0":{"id":0,"output":false,"apower":0.0,"voltage":232.9}}
""",
        settings="""
kind = "jsonl"
timestamp = "ts"
timestamp_format = "unix"
[columns]
power = "switch:0.apower"
voltage = "switch:0.voltage"
""",
        records="""
2026-01-01T00:00:00.12 11.3 233.1
2026-01-01T00:01:00.02 0 232.9
""",
    ),
    Format(
        name="openHAB, items of the REST interface",
        file="items.json",
        written="""{"name": "Kitchen_T", "datapoints": "5", "data": [
  {"time": 1767225600000, "state": "21.5 °C"},
  {"time": 1767225900000, "state": "NULL"},
  {"time": 1767226200000, "state": "21.7 °C"},
  {"time": 1767226500000, "state": "21.8 °C"},
  {"time": 1767226800000, "state": "22 °C"}
]}
""",
        settings="""
kind = "jsonl"
records = "data"
strip = ["°C"]
timestamp = "time"
timestamp_format = "unix_ms"
[columns]
temperature = "state"
""",
        records="""
2026-01-01T00:00:00 21.5
2026-01-01T00:05:00 nan
2026-01-01T00:10:00 21.7
2026-01-01T00:15:00 21.8
2026-01-01T00:20:00 22
""",
    ),
    Format(
        name="Node-RED, file node",
        file="flow.jsonl",
        written="""{"_msgid":"a1","ts":1767225600123,"payload":[1.5,{"value":"2"}]}
{"_msgid":"a2","ts":1767225601123,"payload":[2.5]}
""",
        settings="""
kind = "jsonl"
timestamp = "ts"
timestamp_format = "unix_ms"
[columns]
x = "payload.0"
y = "payload.1.value"
""",
        records="""
2026-01-01T00:00:00.123 1.5 2
2026-01-01T00:00:01.123 2.5 nan
""",
    ),
    Format(
        name="InfluxDB's line protocol: Telegraf, `outputs.file`",
        file="metrics.out",
        written="""cpu,cpu=cpu0,host=web1 usage_idle=97.5 1767225600000000000
cpu,cpu=cpu-total,host=web1 usage_idle=90.5,usage_system=4.5 1767225600000000000
mem,host=web1 used=8231i 1767225600000000000
cpu,cpu=cpu-total,host=web1 usage_idle=50,usage_system=25 1767225610000000000
""",
        settings="""
kind = "influx"
where = { measurement = "cpu", cpu = "cpu-total" }
timestamp = "time"
timestamp_format = "unix_ns"
[columns]
idle = { field = "usage_idle", convert = "% -> 1" }
system = { field = "usage_system", convert = "% -> 1" }
""",
        records="""
2026-01-01T00:00:00 0.905 0.045
2026-01-01T00:00:10 0.5 0.25
""",
        is_guessed=False,
    ),
    Format(
        name='Telegraf, `outputs.file` with `data_format = "json"`',
        file="metrics.jsonl",
        written="""{"fields":{"usage_idle":90.5},"name":"cpu","tags":{"cpu":"cpu-total"},"timestamp":1767225600}
{"fields":{"used":8231},"name":"mem","tags":{"host":"web1"},"timestamp":1767225600}
""",
        settings="""
kind = "jsonl"
where = { name = "cpu", "tags.cpu" = "cpu-total" }
timestamp = "timestamp"
timestamp_format = "unix"
[columns]
idle = "fields.usage_idle"
""",
        records="2026-01-01T00:00:00 90.5",
        is_guessed=False,
    ),
    Format(
        name='Telegraf, `outputs.http` with `data_format = "json"`',
        file="batch.json",
        written="""{"metrics":[
{"fields":{"temp":41.5},"name":"cpu","tags":{},"timestamp":1767225600},
{"fields":{"temp":42},"name":"cpu","tags":{},"timestamp":1767225610}]}
""",
        settings="""
kind = "jsonl"
records = "metrics"
timestamp = "timestamp"
timestamp_format = "unix"
[columns]
temperature = "fields.temp"
""",
        records="""
2026-01-01T00:00:00 41.5
2026-01-01T00:00:10 42
""",
    ),
    Format(
        name="InfluxDB, annotated CSV",
        file="export.csv",
        written="""#datatype,string,long,dateTime:RFC3339,double,string,string
#group,false,false,false,false,true,true
#default,_result,,,,,
,result,table,_time,_value,_field,room
,,0,2026-01-01T00:00:00Z,21,temp,kitchen
,,0,2026-01-01T00:05:00Z,22,temp,kitchen
,,1,2026-01-01T00:15:00Z,18.5,temp,hall
""",
        settings="""
kind = "csv"
comment = "#"
timestamp = "_time"
[join]
key = "_field"
value = "_value"
group = "room"
groups = ["kitchen", "hall"]
every_s = 600
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T00:20:00Z"
take = "mean"
[columns]
temperature = "temp"
""",
        records="""
2026-01-01T00:00:00 21.5
2026-01-01T00:00:00 nan
2026-01-01T00:10:00 nan
2026-01-01T00:10:00 18.5
""",
        is_guessed=False,
    ),
    Format(
        name="Prometheus' text, with times",
        file="metrics.prom",
        written="""# HELP room_celsius Temperature of a room, "measured"
# TYPE room_celsius gauge
room_celsius{room="kitchen"} 21.5 1767225600000
room_celsius{room="hall"} 18.25 1767225600000
# TYPE room_ratio gauge
room_ratio{room="kitchen"} 0.48 1767225601000
room_ratio{room="hall"} NaN 1767225601000
""",
        settings="""
kind = "csv"
delimiter = "blanks"
header = ["metric", "value", "time"]
timestamp = "time"
timestamp_format = "unix_ms"
[join]
key = "metric"
every_s = 60
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T00:01:00Z"
groups = ["kitchen", "hall"]
[columns]
temperature = 'room_celsius{room="{group}"}'
humidity = 'room_ratio{room="{group}"}'
""",
        records="""
2026-01-01T00:00:00 21.5 0.48
2026-01-01T00:00:00 18.25 nan
""",
        is_guessed=False,
    ),
    Format(
        name="The Things Network, uplinks",
        file="uplinks.jsonl",
        written="""{"end_device_ids":{"device_id":"n1"},"received_at":"2026-01-01T00:00:00.123456789Z","uplink_message":{"f_port":1,"decoded_payload":{"temperature":4.5,"battery":3.1},"rx_metadata":[{"time":"2025-12-31T23:59:59Z","rssi":-101}]}}
{"end_device_ids":{"device_id":"n1"},"received_at":"2026-01-01T00:10:00Z","uplink_message":{"f_port":0}}
""",
        settings="""
kind = "jsonl"
where = { "end_device_ids.device_id" = "n1" }
timestamp = "received_at"
[columns]
temperature = "uplink_message.decoded_payload.temperature"
""",
        records="""
2026-01-01T00:00:00.123456 4.5
2026-01-01T00:10:00 nan
""",
    ),
    Format(
        name="ChirpStack, uplinks",
        file="up.jsonl",
        written="""{"time":"2026-01-01T00:00:00+00:00","deviceInfo":{"devEui":"01"},"fCnt":7,"object":{"co2":612}}
{"time":"2026-01-01T00:10:00+00:00","deviceInfo":{"devEui":"01"},"fCnt":8,"object":{"co2":640}}
""",
        settings="""
kind = "jsonl"
timestamp = "time"
[columns]
co2 = "object.co2"
""",
        records="""
2026-01-01T00:00:00 612
2026-01-01T00:10:00 640
""",
    ),
    Format(
        name="OwnTracks, places in a log",
        file="phone.jsonl",
        written="""{"_type":"location","lat":52.5163,"lon":13.3777,"tst":1767225600,"vel":36}
{"_type":"transition","event":"leave","tst":1767225650}
{"_type":"location","lat":52.517,"lon":13.379,"tst":1767225660,"vel":0}
""",
        settings="""
kind = "jsonl"
where = { _type = "location" }
timestamp = "tst"
timestamp_format = "unix"
[columns]
lat = "lat"
lon = "lon"
speed = { field = "vel", convert = "km/h -> m/s" }
""",
        records="""
2026-01-01T00:00:00 52.5163 13.3777 10
2026-01-01T00:01:00 52.517 13.379 0
""",
        is_guessed=False,
    ),
    Format(
        name="Kafka Connect, `FileStreamSink` with `StringConverter`",
        file="sink.txt",
        written="""{"ts":"2026-01-01T00:00:00Z","machine":{"rpm":1490,"load":0.62}}
{"ts":"2026-01-01T00:00:01Z","machine":{"rpm":"1492","load":null}}
""",
        settings="""
kind = "jsonl"
timestamp = "ts"
[columns]
rpm = "machine.rpm"
load = "machine.load"
""",
        records="""
2026-01-01T00:00:00 1490 0.62
2026-01-01T00:00:01 1492 nan
""",
    ),
    Format(
        name="OpenTelemetry's file exporter, made into lines as below",
        file="points.jsonl",
        written="""{"time":"1767225600000000000","name":"system.cpu.utilization","cpu":"cpu0","value":0.25}
{"time":"1767225600000000000","name":"system.memory.usage","cpu":null,"value":"8231"}
{"time":"1767225610000000000","name":"system.cpu.utilization","cpu":"cpu0","value":0.5}
""",
        settings="""
kind = "jsonl"
where = { name = "system.cpu.utilization", cpu = "cpu0" }
timestamp = "time"
timestamp_format = "unix_ns"
[columns]
load = "value"
""",
        records="""
2026-01-01T00:00:00 0.25
2026-01-01T00:00:10 0.5
""",
        is_guessed=False,
    ),
)

"""Formats of spreadsheets, loggers and meters: tables of text."""

from tests.formats.declaration import Format

TABLES = (
    Format(
        name="Grafana, a panel as CSV",
        file="panel.csv",
        written=""""Time","kitchen","hall"
"2026-01-01 00:00:00","21.5 °C","18.2 °C"
"2026-01-01 00:05:00","21.6 °C",""
""",
        settings="""
kind = "csv"
strip = ["°C"]
timestamp = "Time"
[columns]
kitchen = "kitchen"
hall = "hall"
""",
        records="""
2026-01-01T00:00:00 21.5 18.2
2026-01-01T00:05:00 21.6 nan
""",
    ),
    Format(
        name="A German Excel, with `sep=;`",
        file="meter.csv",
        written="""sep=;\r
Datum;Uhrzeit;Zählerstand;Außen\r
15.01.2026;00:15;1.042,7 kWh;-3,5 °C\r
15.01.2026;00:30;1.043,1 kWh;-999\r
""".encode("cp1252"),
        settings="""
kind = "csv"
encoding = "cp1252"
delimiter = ";"
decimal = ","
thousands = "."
strip = ["kWh", "°C"]
missing_values = ["-999"]
timestamp = "Datum"
timestamp_clock = "Uhrzeit"
timestamp_format = "%d.%m.%Y %H:%M"
timestamp_zone = "Europe/Berlin"
[columns]
energy = "Zählerstand"
outside = "Außen"
""",
        records="""
2026-01-14T23:15:00 1042.7 -3.5
2026-01-14T23:30:00 1043.1 nan
""",
    ),
    Format(
        name="Excel, “Unicode text”",
        file="table.txt",
        written="""Time\tT\tDruck €\r
2026-01-01 00:00:00\t21.5\t3\r
2026-01-01 00:10:00\t\t4\r
""".encode("utf-16"),
        settings="""
kind = "csv"
encoding = "utf-16"
delimiter = "\\t"
timestamp = "Time"
[columns]
t = "T"
price = "Druck €"
""",
        records="""
2026-01-01T00:00:00 21.5 3
2026-01-01T00:10:00 nan 4
""",
    ),
    Format(
        name="Excel, times as the numbers of days",
        file="days.csv",
        written="""Time;kW
46023;1,5
46023,0104166667;1,75
46023,5;2
""",
        settings="""
kind = "csv"
delimiter = ";"
decimal = ","
timestamp = "Time"
timestamp_format = "excel"
[columns]
power = "kW"
""",
        records="""
2026-01-01T00:00:00 1.5
2026-01-01T00:15:00 1.75
2026-01-01T12:00:00 2
""",
    ),
    Format(
        name="An American spreadsheet",
        file="us.csv",
        written="""Date,Temp (F),Cost
1/15/2026 12:30:00 AM,50,"1,250.00"
1/15/2026 1:30:00 PM,59,"1,300.50"
""",
        settings="""
kind = "csv"
thousands = ","
timestamp = "Date"
timestamp_format = "%m/%d/%Y %I:%M:%S %p"
[columns]
temperature = { field = "Temp (F)", convert = "degF -> degC" }
cost = "Cost"
""",
        records="""
2026-01-15T00:30:00 10 1250
2026-01-15T13:30:00 15 1300.5
""",
    ),
    Format(
        name="A smart meter's portal, decimal commas",
        file="lastgang.csv",
        written="""\ufeff"Zeitstempel";"Wert (kWh)";"Status"
"15.01.2026 00:15:00";"0,125";"W"
"15.01.2026 00:30:00";"1.000,500";"E"
""",
        settings="""
kind = "csv"
delimiter = ";"
decimal = ","
thousands = "."
timestamp = "Zeitstempel"
timestamp_format = "%d.%m.%Y %H:%M:%S"
timestamp_zone = "Europe/Berlin"
[columns]
energy = "Wert (kWh)"
""",
        records="""
2026-01-14T23:15:00 0.125
2026-01-14T23:30:00 1000.5
""",
    ),
    Format(
        name="A Swiss export, apostrophes between thousands",
        file="zaehler.csv",
        written="""Zeit;Stand
2026-01-01T00:00:00+01:00;12'042.5
2026-01-01T00:15:00+01:00;12'043.75
""",
        settings="""
kind = "csv"
delimiter = ";"
thousands = "'"
timestamp = "Zeit"
[columns]
energy = "Stand"
""",
        records="""
2025-12-31T23:00:00 12042.5
2025-12-31T23:15:00 12043.75
""",
    ),
    Format(
        name="Tabs, no header",
        file="plain.tsv",
        written="1767225600\t1.5\t2\n1767225660\t2.5\t3e-1\n",
        settings="""
kind = "csv"
delimiter = "\\t"
header = ["time", "x", "y"]
timestamp = "time"
timestamp_format = "unix"
[columns]
x = "x"
y = "y"
""",
        records="""
2026-01-01T00:00:00 1.5 2
2026-01-01T00:01:00 2.5 0.3
""",
        is_guessed=False,
    ),
    Format(
        name="Fixed blanks: buoys, weather stations",
        file="station.dat",
        written="""STATION 41001
UPDATED 2026-01-01
DATE       TIME   WSPD   GST
2026/01/01 00:10  10.0   12.1
2026/01/01 00:20  99.0   12.4
""",
        settings="""
kind = "csv"
skip_lines = 2
delimiter = "blanks"
missing_values = ["99.0"]
timestamp = "DATE"
timestamp_clock = "TIME"
timestamp_format = "%Y/%m/%d %H:%M"
[columns]
wind = "WSPD"
gust = "GST"
""",
        records="""
2026-01-01T00:10:00 10 12.1
2026-01-01T00:20:00 nan 12.4
""",
        is_guessed=False,
    ),
    Format(
        name="Campbell Scientific, TOA5",
        file="CR1000.dat",
        written=""""TOA5","site","CR1000","1234","CR1000.Std.32","CPU:met.CR1","5512","Met"
"TIMESTAMP","RECORD","AirTC_Avg","RH"
"TS","RN","Deg C","%"
"","","Avg","Smp"
"2026-01-01 00:10:00",0,21.43,48.1
"2026-01-01 00:20:00",1,"NAN",48.4
"2026-01-01 00:30:00",2,21.4,48.6
"2026-01-01 00:40:00",3,21.3,49
"2026-01-01 00:50:00",4,21.25,49.5
""",
        settings="""
kind = "csv"
skip_lines = 4
header = ["TIMESTAMP", "RECORD", "AirTC_Avg", "RH"]
timestamp = "TIMESTAMP"
[columns]
temperature = "AirTC_Avg"
humidity = { field = "RH", convert = "% -> 1" }
""",
        records="""
2026-01-01T00:10:00 21.43 0.481
2026-01-01T00:20:00 nan 0.484
2026-01-01T00:30:00 21.4 0.486
2026-01-01T00:40:00 21.3 0.49
2026-01-01T00:50:00 21.25 0.495
""",
    ),
    Format(
        name="HOBO (Onset)",
        file="hobo.csv",
        written="""\ufeff"Plot Title: cellar"
"#","Date Time, GMT+01:00","Temp, °C (LGR S/N: 1, SEN S/N: 1)","RH, % (LGR S/N: 1, SEN S/N: 2)"
1,"01/15/26 01:00:00 AM",12.5,70.1
2,"01/15/26 02:00:00 PM",12.6,
""",
        settings="""
kind = "csv"
skip_lines = 1
timestamp = "Date Time, GMT+01:00"
timestamp_format = "%m/%d/%y %I:%M:%S %p"
timestamp_zone = "Etc/GMT-1"
[columns]
temperature = "Temp, °C (LGR S/N: 1, SEN S/N: 1)"
humidity = "RH, % (LGR S/N: 1, SEN S/N: 2)"
""",
        records="""
2026-01-15T00:00:00 12.5 70.1
2026-01-15T13:00:00 12.6 nan
""",
    ),
    Format(
        name="Modbus, registers as a poller logs them",
        file="registers.csv",
        written="""# slave 1, function 3
timestamp;40001;40003;40005
2026-01-01 00:00:00.250;2314;-12;65535
2026-01-01 00:00:01.250;2309;-10;118
""",
        settings="""
kind = "csv"
comment = "#"
delimiter = ";"
missing_values = ["65535"]
timestamp = "timestamp"
[columns]
voltage = { field = "40001", scale = 0.1 }
outside = { field = "40003", scale = 0.1 }
power = "40005"
""",
        records="""
2026-01-01T00:00:00.25 231.4 -1.2 nan
2026-01-01T00:00:01.25 230.9 -1 118
""",
        is_guessed=False,
    ),
    Format(
        name="Modbus Poll, one register a line",
        file="poll.csv",
        written="""Time,Address,Value
2026-01-01T00:00:00Z,40001,231.4
2026-01-01T00:00:00Z,40003,118
2026-01-01T00:00:10Z,40001,230.9
2026-01-01T00:00:10Z,40003,-32768
2026-01-01T00:00:20Z,40001,231
2026-01-01T00:00:20Z,40003,117
""",
        settings="""
kind = "csv"
missing_values = ["-32768"]
timestamp = "Time"
[join]
key = "Address"
value = "Value"
every_s = 10
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T00:00:30Z"
[columns]
voltage = "40001"
power = "40003"
""",
        records="""
2026-01-01T00:00:00 231.4 118
2026-01-01T00:00:10 230.9 nan
2026-01-01T00:00:20 231 117
""",
        is_guessed=False,
    ),
    Format(
        name="GPX or NMEA, made into CSV by GPSBabel (`-o unicsv`)",
        file="track.csv",
        written="""No,Latitude,Longitude,Altitude,Speed,Date,Time
1,52.516300,13.377700,34.0,1.25,2026/01/01,10:00:00
2,52.516400,13.377900,34.5,1.50,2026/01/01,10:00:05
""",
        settings="""
kind = "csv"
timestamp = "Date"
timestamp_clock = "Time"
timestamp_format = "%Y/%m/%d %H:%M:%S"
[columns]
lat = "Latitude"
lon = "Longitude"
speed = "Speed"
""",
        records="""
2026-01-01T10:00:00 52.5163 13.3777 1.25
2026-01-01T10:00:05 52.5164 13.3779 1.5
""",
    ),
    Format(
        name="ThingSpeak, a channel as CSV",
        file="feeds.csv",
        written="""created_at,entry_id,field1,field2
2026-01-01 00:00:00 UTC,1,21.5,48
2026-01-01 00:00:15 UTC,2,21.6,
""",
        settings="""
kind = "csv"
timestamp = "created_at"
timestamp_format = "%Y-%m-%d %H:%M:%S UTC"
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
        name="A log whose times are ISO 8601 or seconds since 1970",
        file="mixed.csv",
        written="""time,x
2026-01-01T00:00:00Z,1
1767225660,2
1767225720.5,3
2026-01-01T01:03:00+01:00,4
""",
        settings="""
kind = "csv"
timestamp = "time"
timestamp_format = "iso8601 or unix"
[columns]
x = "x"
""",
        records="""
2026-01-01T00:00:00 1
2026-01-01T00:01:00 2
2026-01-01T00:02:00.5 3
2026-01-01T00:03:00 4
""",
    ),
)

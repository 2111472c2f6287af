"""The configuration that ``init --print-config`` prints; a test loads it."""

SAMPLE = """\
# Configuration of sfumato-agent. Lines that begin with # are examples or defaults.
state_dir = "state"                       # key, ledger and outbox; relative to this file
server = "https://sketches.example.org"
# The study's identity, from its operator:
study = "0000000000000000000000000000000000000000000000000000000000000000"
# labels = { region = "north" }           # if the study declares labels; fixed when enrolled

[budget]                                  # the most you allow; without it, no limit
per_record = "1"                          # epsilon, exact and in quotes
# lifetime = "30"                         # for someone who is in every window
# delta = "1/1000000000"                  # if the plan's noise needs one

[policy]                                  # a plan outside it is refused; without it, none is
epsilon_per_window = "1"
# mechanisms = ["discrete-knorm", "discrete-laplace", "discrete-gaussian"]
# neighbouring = ["replace-one", "add-remove-one"]
# plan_digests = ["64 hexadecimal digits"]    # `sfumato-agent check` shows the plan's
# servers = ["https://sketches.example.org"]

# [outbox]
# most_megabytes = 256                    # then no window is closed until some were sent

# [log]                                   # of `run`, on standard error
# level = "info"                          # or debug, warning, error

# [tls]                                   # whom to believe instead of the system's authorities
# ca_file = "ca.pem"
# certificate = "device.crt"              # where the server asks for one
# key = "device.crt.key"

# [metrics]                               # of `run`, for Prometheus's text collector
# path = "/var/lib/node_exporter/textfile/sfumato.prom"

[[streams]]
name = "meter"
[streams.source]
kind = "csv"                              # or jsonl, folder, stdin, sqlite, mqtt, http, parquet
path = "records.csv"
timestamp = "time"                        # the column with each record's time
# timestamp_format = "iso8601"            # or unix, unix_ms, "%d.%m.%Y %H:%M"
# missing = "wait"                        # until the file is there
# replaced = "follow"                     # where files are rotated
# [streams.columns]                       # dimension = column, where the names differ
# temperature = { field = "temp", convert = "degF -> degC" }
"""

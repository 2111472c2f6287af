#!/opt/sfumato/bin/python
"""Write the agent's configuration from the options of the add-on, enrol, and run."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

WAITING = 75
"""Exit status of an agent whose server does not answer yet."""
TEMPLATE = """
state_dir = "state"
server = {server}
study = {study}
[budget]
per_record = {budget}
[[streams]]
name = "house"
[streams.source]
kind = "sqlite"
path = {database}
query = '''
SELECT s.state_id AS id, m.entity_id, s.state, s.last_updated_ts AS time
FROM states s JOIN states_meta m ON m.metadata_id = s.metadata_id
WHERE s.state_id > :last ORDER BY s.state_id LIMIT :n'''
key = "id"
timestamp = "time"
timestamp_format = "unix"
[streams.source.join]
key = "entity_id"
value = "state"
every_s = {every_s}
since = {since}
[streams.columns]
"""


def make_config(
    options: dict[str, Any], database: str = "/homeassistant/home-assistant_v2.db"
) -> str:
    """Return the configuration; texts of JSON are texts of TOML."""
    values = {name: json.dumps(value) for name, value in (options | {"database": database}).items()}
    columns = [
        f"{json.dumps(each['column'])} = {json.dumps(each['entity'])}\n"
        for each in options["entities"]
    ]
    return TEMPLATE.format(**values) + "".join(columns)


def main() -> None:
    """Run until stopped."""
    folder = Path("/data")
    options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    config = folder / "agent.toml"
    config.write_text(make_config(options), encoding="utf-8")
    command = ["sfumato-agent", "init", "--config", str(config), "--token", "-"]
    # Enrolling again with the same token is harmless.
    while status := subprocess.run(
        command, input=options["token"], text=True, check=False
    ).returncode:
        if status != WAITING:
            raise SystemExit(status)
        time.sleep(10)
    os.execvp("sfumato-agent", ["sfumato-agent", "run", "--config", str(config)])


if __name__ == "__main__":
    main()

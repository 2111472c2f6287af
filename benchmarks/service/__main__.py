"""The command: ``python -m benchmarks.service``."""

from __future__ import annotations

from benchmarks.rows import create_parser, print_rows
from benchmarks.service.cases import CASES, NAME, measure


def main() -> None:
    """Read the options and print rows."""
    parser = create_parser(NAME, "Measure the aggregator as a service.")
    parser.add_argument(
        "--case", default="", metavar="TEXT", help=f"cases with TEXT in their name: {list(CASES)}"
    )
    options = parser.parse_args()
    print_rows(measure(options.quick, only=options.case), as_json=options.json)


if __name__ == "__main__":
    main()

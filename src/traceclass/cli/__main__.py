"""`python -m traceclass.cli`."""

from traceclass.cli import main

main()

"""Page, tables and figures that the reports of all experiments share; from stored runs only."""

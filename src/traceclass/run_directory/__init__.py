"""The directory that a command leaves behind: claimed before the work, complete or absent after."""

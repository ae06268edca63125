"""The management process, asked over HTTP as its users do."""

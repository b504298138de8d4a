"""The Datasette plugin of alpineagents."""

"""The tests. Each is a sentence about a guarantee; see CONTRIBUTING.md."""

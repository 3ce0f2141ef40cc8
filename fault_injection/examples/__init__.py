"""A store that is not lastgood, and how it is put to the test."""

"""Judgements: what holds, decided from values alone. Each module is pure and knows no other."""

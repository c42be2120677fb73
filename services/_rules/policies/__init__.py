"""How policies claim and match templates. Their admission is in _rules/admission, placement in _rules/scheduling."""

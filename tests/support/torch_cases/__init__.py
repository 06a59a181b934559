"""torch operators as from_torch has to get them, written from torch's documentation: name, function, arguments."""

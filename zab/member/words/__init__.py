"""How a member reports on itself: four-letter words, admin commands, figures."""

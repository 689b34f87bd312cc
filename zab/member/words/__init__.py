"""What a member says of itself: four-letter words, commands, figures."""

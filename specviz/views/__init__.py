"""Views: trace in, view model out. Plain data, standard library only; nothing here draws."""

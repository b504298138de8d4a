"""What happened, and what follows from it: entries, the fold over them, their JSON form. Pure but for the clock."""

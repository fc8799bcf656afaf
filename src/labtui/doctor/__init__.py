"""`labtui doctor`: what it asks a cluster, how it judges the answers and what it advises; and setting up keys."""

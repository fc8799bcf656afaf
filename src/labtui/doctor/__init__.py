"""What `labtui doctor` asks a cluster, how it judges the answers, and what it advises."""

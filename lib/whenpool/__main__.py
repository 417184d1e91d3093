from whenpool.cli import main

main()

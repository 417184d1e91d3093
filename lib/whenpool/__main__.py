from whenpool.cli.main import main

main()

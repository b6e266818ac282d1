(* page.bc URL: runs the program of an interface's page that PROGRAM names, compiled to bytecode. All of them share the
   libraries that are linked here: to link each by itself takes a second. *)

let () =
  try Dynlink.loadfile (Sys.getenv "PROGRAM")
  with Dynlink.Error error ->
    prerr_endline (Dynlink.error_message error);
    exit 1

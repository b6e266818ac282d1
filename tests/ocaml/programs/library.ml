(* library.exe unix|lwt ACT URL …: the client library at work, one line for each thing that is seen. *)

open Sapwood

let say form = Way.say form
let ca = Sys.getenv_opt "CA"

module Acts (W : Way.S) = struct
  open W

  let rec each act = function
    | [] -> return ()
    | first :: rest ->
        let* () = act first in
        each act rest

  let refused act =
    attempt act (function
      | Ok _ -> return (say "not refused")
      | Error (Errors.Refused { code; help; _ }) -> return (say "%s, see %s" code help)
      | Error error -> return (say "%s" (Printexc.to_string error)))

  let receive session ack_to =
    let* messages = Session.transfer session ~ack_to ~seconds:20. in
    let show (each : Message.t) =
      let kind = if each.is_text then "text" else "bytes" in
      say "%s %S %s %S%s" kind each.payload each.correlation_id each.reply_to
        (if each.redelivered then " again" else "");
      Session.ack session each.id
    in
    each show messages

  let verbs url () =
    let* session = Session.connect ~token:"a till/7" url in
    say "token %s, help %s" (Session.token session) (Session.help session);
    let queue = "stock/ü ?#%" in
    let* name = Session.create session ~queue in
    let* fresh = Session.create session in
    say "%s %b" name (String.length fresh > 10 && String.sub fresh 0 10 = "transient-");
    let* () = refused (fun () -> Session.subscribe session "transient-gone") in
    let* () = Session.subscribe session queue in
    let* () = Session.subscribe session fresh in
    let* names = Session.list session "stock" in
    say "%s" (String.concat " " names);
    let* () = Session.send session queue "text ü" ~correlation_id:"-9223372036854775808" in
    let* () = receive session (-1L) in
    let* () = Session.send session queue "\000\255" ~correlation_id:"18446744073709551615" ~reply_to:fresh in
    let* () = receive session (-1L) in
    let* () = refused (fun () -> Session.send session queue (String.make 20_000_000 'x')) in
    let* nothing = Session.transfer session ~ack_to:(-1L) ~seconds:0. in
    say "%d left" (List.length nothing);
    let* () = Session.destroy session queue in
    let* names = Session.list session "stock" in
    say "%d queues" (List.length names);
    Session.close session;
    refused (fun () -> Session.ack session 1L)

  (* A timer of the program's own goes on all the time. *)
  let signals url queue () =
    let* session = Session.connect ?ca url in
    let* _ = Session.create session ~queue in
    Sys.set_signal Sys.sigalrm (Signal_handle ignore);
    let timer seconds = ignore (Unix.setitimer ITIMER_REAL { it_interval = seconds; it_value = seconds }) in
    timer 0.002;
    let* () = each (fun number -> Session.send session queue (string_of_int number)) (List.init 300 Fun.id) in
    timer 0.;
    return (say "sent")

  let many url queue () =
    let* session = Session.connect url in
    let* () = both (List.init 300 (fun number () -> Session.send session queue (string_of_int number))) in
    return (say "sent")

  (* In a process that was forked a session is closed; the one that forked goes on. *)
  let forks url queue () =
    let* session = Session.connect url in
    let* () = Session.send session queue "before" in
    match fork () with
    | 0 ->
        let* () = refused (fun () -> Session.send session queue "forked") in
        Session.close session;
        Unix._exit 0
    | child ->
        ignore (Unix.waitpid [] child);
        let* () = Session.send session queue "after" in
        return (say "%d made anew" (Session.renewed session))

  let answer (call : Call.t) =
    match call.parameters with
    | [ ("fail", _) ] -> failwith "on purpose"
    | [ ("sleep", `Int seconds) ] ->
        say "sleeps";
        let* () = sleep (float_of_int seconds) in
        return `Null
    | [ ("cancel", _) ] -> fail Lwt.Canceled
    | [ ("thread", _) ] -> return (`Int (Thread.id (Thread.self ())))
    | [ ("task", _) ] -> return (`String (Task.current ()))
    | [ ("no number", _) ] -> return (`Float Float.nan)
    | [ ("no text", _) ] -> return (`String "\xff")
    | [ ("data", _) ] -> raise (Errors.Service (Fault.make ~data:(`String "\xff") "NO" "no"))
    | [ ("refuse", data) ] -> raise (Errors.Service (Fault.make ~data "NO" "no"))
    | [ ("large", _) ] -> return (`String (String.make 20_000_000 'x'))
    | parameters -> return (`Assoc parameters)

  let serve url queue () =
    let methods = [ { Interface.name = "echo"; about = "Says it again."; run = answer } ] in
    let* session = Session.connect ?ca url in
    let* _ = Session.create session ~queue in
    let* () = Session.subscribe session queue in
    say "serving";
    Rpc.serve session queue [ { Interface.name = "echo"; version = "1.2"; methods } ]

  let ask rpc call =
    attempt
      (fun () -> Rpc.request rpc call)
      (function
        | Ok (Ok json) -> return (say "%s" (Json.to_string json))
        | Ok (Error fault) -> return (say "%s: %s %s" fault.code fault.message (Json.to_string fault.data))
        | Error error -> return (say "%s" (Printexc.to_string error)))

  let calls url queue () =
    let* rpc = Rpc.connect ?ca url in
    let rpc = Rpc.at rpc ~queue in
    let echo ?interface ?version parameters = Call.make ?interface ?version "echo" parameters in
    let* () =
      each (ask rpc)
        [
          echo [ ("text", `String "\xf0\x9d\x84\x9e\000\"\\"); ("number", `Intlit "9223372036854775807") ];
          echo [ ("fail", `Null); ("fail", `Int 1) ];
          echo [ ("cancel", `Null); ("cancel", `Int 1) ];
          echo [ ("refuse", `List [ `Int 1 ]) ];
          echo [ ("no number", `Int 1) ];
          echo [ ("no text", `Int 1) ];
          echo [ ("data", `Int 1) ];
          echo [ ("here", `Float Float.infinity) ];
          echo [ ("large", `Int 1) ];
          echo ~interface:"echo" ~version:"1.2" [];
          echo ~interface:"echo" ~version:"1.3" [];
          echo ~interface:"other" [];
          Call.make "no" [];
          Call.make "help" [];
        ]
    in
    let threads = Hashtbl.create 40 in
    let thread _ =
      let* answer = Rpc.request rpc (echo [ ("thread", `Int 1) ]) in
      return (Hashtbl.replace threads answer ())
    in
    let* () = each thread (List.init 40 Fun.id) in
    say "%s" (if Hashtbl.length threads <= 20 then "few threads" else "many threads");
    let right = ref 0 in
    let one number () =
      let* answer = Rpc.request rpc (echo [ ("x", `Int number) ]) in
      if answer = Ok (`Assoc [ ("x", `Int number) ]) then incr right;
      return ()
    in
    let* () = both (List.init 30 one) in
    say "%d right" !right;
    let* () = ask (Rpc.at rpc ~queue:"nobody reads this" ~timeout:0.5) (echo []) in
    Rpc.close rpc;
    ask rpc (echo [])

  (* Two calls that nobody answers, the shorter while the other waits. *)
  let wait url queue () =
    let* rpc = Rpc.connect ?ca url in
    let call timeout () = ask (Rpc.at rpc ~queue ~timeout) (Call.make (string_of_float timeout) []) in
    let later () =
      let* () = sleep 0.5 in
      call 4. ()
    in
    both [ call 12.; later ]

  (* One call for each line of standard input, as a task of that name. *)
  let lines url queue () =
    let* rpc = Rpc.connect ?ca url in
    let rec next () =
      match input_line stdin with
      | exception End_of_file -> return ()
      | line ->
          let call () = ask (Rpc.at rpc ~queue) (Call.make "echo" [ ("line", `String line) ]) in
          let* () = Task.within ~name:line call in
          next ()
    in
    next ()

  let act () =
    let url = Sys.argv.(3) in
    run
      (match Sys.argv.(2) with
      | "verbs" -> verbs url
      | "forks" -> forks url Sys.argv.(4)
      | "many" -> many url Sys.argv.(4)
      | "signals" -> signals url Sys.argv.(4)
      | "serve" -> serve url Sys.argv.(4)
      | "wait" -> wait url Sys.argv.(4)
      | "calls" -> calls url Sys.argv.(4)
      | "lines" -> lines url Sys.argv.(4)
      | other -> failwith other)
end

module Blocking = Acts (Way.Blocking)
module Asynchronous = Acts (Way.Asynchronous)

let () = match Sys.argv.(1) with "unix" -> Blocking.act () | "lwt" -> Asynchronous.act () | other -> failwith other

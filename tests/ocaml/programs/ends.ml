(* ends.exe unix|lwt ACT URL …: an application with an end of a channel, led by lines of standard input. *)

open Sapwood

let say form = Way.say form
let ca = Sys.getenv_opt "CA"
let pattern size = String.init size (fun place -> Char.chr (place * 7 mod 251))
let way_of name = List.find (fun way -> Channel.name way = name) Channel.ways

module Acts (W : Way.S) = struct
  open W
  module Reading = Way.Reading (W)

  let rec exactly ends size =
    if size <= 0 then return 0
    else
      let* part = read ends in
      exactly ends (size - String.length part)

  let told act =
    attempt act (function
      | Ok said -> return (say "%s" said)
      | Error (Unix.Unix_error (ECONNRESET, _, _)) -> return (say "reset")
      | Error error -> return (say "%s" (Printexc.to_string error)))

  let rec led ends =
    match String.split_on_char ' ' (input_line stdin) with
    | exception End_of_file -> return ()
    | words ->
        let act () =
          match words with
          | [ "write"; size ] ->
              let* () = write ends (pattern (int_of_string size)) in
              return "written"
          | [ "finish" ] ->
              let* () = finish ends in
              return "finished"
          | [ "all" ] ->
              let* found = Reading.all ends in
              return (Printf.sprintf "%d %s" (String.length found) (Digest.to_hex (Digest.string found)))
          | [ "read"; size ] ->
              let* over = exactly ends (int_of_string size) in
              return (Printf.sprintf "read, and %d more" (-over))
          | [ "close" ] ->
              let* () = close ends in
              return "closed"
          | _ -> failwith "not understood"
        in
        let* () = told act in
        led ends

  let wrong act =
    attempt act (function
      | Ok () -> return ()
      | Error (Errors.Channel_failed text) -> return (say "failed: %s" text)
      | Error error -> return (say "%s" (Printexc.to_string error)))

  let make url queue wait () =
    let* session = Session.connect ?ca url in
    let* descriptor, given = Channel.make ~wait session in
    let* () = Session.send session queue (Sapwood.Channel.to_string given) in
    say "made";
    led (ends descriptor)

  let take url queue ways () =
    let* session = Session.connect ?ca url in
    let* _ = Session.create session ~queue in
    let* () = Session.subscribe session queue in
    say "subscribed";
    let rec next seen =
      let* messages = Session.transfer session ~ack_to:seen ~seconds:20. in
      match messages with
      | [] -> next seen
      | (message : Message.t) :: _ ->
          let* () = Session.ack session message.id in
          let* descriptor, way = Channel.take ~ways session (Sapwood.Channel.of_string message.payload) in
          say "%s" (Sapwood.Channel.name way);
          led (ends descriptor)
    in
    next (-1L)

  let act () =
    let word = Array.get Sys.argv in
    let ways () = List.map way_of (String.split_on_char ',' (word 5)) in
    run (fun () ->
        wrong
          (match word 2 with
          | "make" -> make (word 3) (word 4) (float_of_string (word 5))
          | "take" -> take (word 3) (word 4) (ways ())
          | other -> failwith other))
end

module Blocking = Acts (Way.Blocking)
module Asynchronous = Acts (Way.Asynchronous)

(* Whether each line of standard input is a channel, and how each of its URLs is understood. *)
let rec read () =
  match input_line stdin with
  | exception End_of_file -> ()
  | line ->
      let place url =
        match Channel.place url with
        | None -> "none"
        | Some (At_socket path) -> "unix " ^ path
        | Some (At_address (host, port)) -> Printf.sprintf "tcp %s %d" (Unix.string_of_inet_addr host) port
        | Some (At_node (node, name)) -> Printf.sprintf "tree %s %s" node name
      in
      (match Channel.of_string line with
      | { urls; _ } -> say "%s" (String.concat "; " (List.map place urls))
      | exception Json.Wrong text -> say "wrong: %s" text);
      read ()

let () =
  match Sys.argv.(1) with
  | "unix" -> Blocking.act ()
  | "lwt" -> Asynchronous.act ()
  | "read" -> read ()
  | other -> failwith other
